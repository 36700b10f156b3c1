package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/shared"
)

// opened opens a sandbox with the progress that it made.
func opened(t *testing.T, e *engine, spec shared.Spec) (shared.Sandbox, []string, error) {
	t.Helper()
	var progress []string
	ctx := shared.WithProgress(t.Context(), func(e shared.Event) {
		if e.Kind == shared.EventProgress {
			progress = append(progress, e.Message)
		}
	})
	s, err := e.Open(ctx, spec)
	if err == nil {
		t.Cleanup(func() { s.Close(context.Background()) })
	}
	return s, progress, err
}

func TestBuildInline(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	spec := shared.Spec{Options: rawOptions(t, opts{"dockerfile_inline": "FROM " + dockerd.Image + "\nRUN echo built > /made\nVOLUME /data\n"})}
	s, progress, err := opened(t, e, spec)
	if err != nil {
		t.Fatal(err)
	}
	if out := sh(t, s, "cat /made; echo x > /data/f && cat /data/f"); out.stdout != "built\nx\n" {
		t.Errorf("got %+v", out)
	}
	if !strings.Contains(strings.Join(progress, "\n"), "RUN echo built") {
		t.Errorf("progress: %q", progress)
	}
	if _, progress, err := opened(t, e, spec); err != nil || len(progress) != 0 {
		t.Errorf("the same again: %q, %v", progress, err)
	}
}

func TestBuildFails(t *testing.T) {
	t.Parallel()
	_, _, err := opened(t, newEngine(t), shared.Spec{Options: rawOptions(t, opts{
		"dockerfile_inline": "FROM " + dockerd.Image + "\nRUN echo fine\nRUN echo the cause >&2; exit 42\n"})})
	e, ok := errors.AsType[*shared.Error](err)
	if !ok || e.Attribute != "config.dockerfile_inline" {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"step 3/3", "exit 42", "the cause"} {
		if !strings.Contains(strings.ToLower(e.Message), want) {
			t.Errorf("no %q in %s", want, e.Message)
		}
	}
	if strings.Contains(e.Message, "fine") {
		t.Errorf("what an earlier step said is in %s", e.Message)
	}
}

func TestBuildFromWorkspace(t *testing.T) {
	t.Parallel()
	ws := dir(t, "src/a", "src/secret", "ignored/b", "keys/c")
	for name, text := range map[string]string{
		"Dockerfile":    "FROM " + dockerd.Image + "\nCOPY . /context\n",
		".dockerignore": "ignored\n",
	} {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	e := newEngine(t)
	spec := shared.Spec{Options: rawOptions(t, opts{"dockerfile": "Dockerfile"}),
		Table: []shared.Entry{{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"},
			{Path: "/w/keys", Access: shared.Hidden, Why: "deny_paths"}, {Path: "/w/src/secret", Access: shared.Hidden, Why: "deny_paths"}}}
	s, _, err := opened(t, e, spec)
	if err != nil {
		t.Fatal(err)
	}
	out := sh(t, s, "cat /context/src/*; ls /context; echo RUN evil >> /w/Dockerfile; mv /w/Dockerfile /w/D; echo x > /w/src/a")
	if out.stdout != "src/a\nDockerfile\nsrc\n" {
		t.Errorf("got %+v", out)
	}
	if got, _ := os.ReadFile(ws + "/Dockerfile"); strings.Contains(string(got), "evil") {
		t.Error("a command changed what the next image is built from")
	}
	if err := os.Symlink("Dockerfile", ws+"/link"); err != nil {
		t.Fatal(err)
	}
	linked := spec
	linked.Options = rawOptions(t, opts{"dockerfile": "link"})
	if _, _, err := opened(t, e, linked); !errors.Is(err, shared.ErrDenied) || !strings.Contains(err.Error(), ws+"/link") {
		t.Errorf("a link that a command can replace: %v", err)
	}
	os.Remove(ws + "/link")
	if s, progress, err := opened(t, e, spec); err != nil || len(progress) == 0 {
		t.Errorf("a changed context: %q, %v", progress, err)
	} else if out := sh(t, s, "cat /context/src/a"); out.stdout != "x\n" {
		t.Errorf("got %+v", out)
	}
}

func TestMissingImage(t *testing.T) {
	t.Parallel()
	for pull, says := range map[string]string{"never": `pull is "never"`, "missing": "could not fetch it"} {
		_, _, err := opened(t, newEngine(t), shared.Spec{Options: rawOptions(t, opts{"image": "registry.invalid/nosuch:1", "pull": pull})})
		e, ok := errors.AsType[*shared.Error](err)
		if !ok || e.Kind != shared.ErrUnavailable || e.Attribute != "config.image" || !strings.Contains(e.Message, says) || !strings.Contains(e.Hint, "docker pull") {
			t.Errorf("%s: got %v", pull, err)
		}
	}
}

func TestNotFoundNamesTheImagesPath(t *testing.T) {
	t.Parallel()
	s, _, err := opened(t, newEngine(t), shared.Spec{Options: rawOptions(t, opts{
		"dockerfile_inline": "FROM " + dockerd.Image + "\nENV PATH=/opt/tool/bin:/bin\n"})})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Start(t.Context(), shared.Command{Args: []string{"tool"}, Env: []string{"PATH=/usr/bin"}, Dir: "/"}, shared.Stdio{})
	if !errors.Is(err, shared.ErrNotFound) || !strings.Contains(err.Error(), "/opt/tool/bin") {
		t.Errorf("got %v", err)
	}
}
