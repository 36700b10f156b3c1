package docker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/shared"
)

// changed makes an image of the test's own from the usual one.
func changed(t *testing.T, changes ...string) string {
	t.Helper()
	docker := daemonFor(t).Client
	made, err := docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: dockerd.Image, Config: &container.Config{Cmd: []string{"/bin/true"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer docker.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{})
	got, err := docker.ContainerCommit(t.Context(), made.ID, client.ContainerCommitOptions{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { docker.ImageRemove(context.Background(), got.ID, client.ImageRemoveOptions{}) })
	return got.ID
}

func TestVolumesOfImage(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{"image": changed(t, "VOLUME /data"), "pull": "never"})})
	if out := sh(t, s, "echo x > /data/f && cat /data/f"); out.stdout != "x\n" {
		t.Errorf("got %+v", out)
	}
}

func TestMissingImage(t *testing.T) {
	t.Parallel()
	for pull, says := range map[string]string{"never": `pull is "never"`, "missing": "could not fetch it"} {
		_, err := newEngine(t).Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{"image": "registry.invalid/nosuch:1", "pull": pull})})
		e, ok := errors.AsType[*shared.Error](err)
		if !ok || e.Kind != shared.ErrUnavailable || e.Attribute != "config.image" || !strings.Contains(e.Message, says) || !strings.Contains(e.Hint, "docker pull") {
			t.Errorf("%s: got %v", pull, err)
		}
	}
}

func TestNotFoundNamesTheImagesPath(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{"image": changed(t, "ENV PATH=/opt/tool/bin:/bin"), "pull": "never"})})
	_, err := s.Start(t.Context(), shared.Command{Args: []string{"tool"}, Env: []string{"PATH=/usr/bin"}, Dir: "/"}, shared.Stdio{})
	if !errors.Is(err, shared.ErrNotFound) || !strings.Contains(err.Error(), "/opt/tool/bin") {
		t.Errorf("got %v", err)
	}
}
