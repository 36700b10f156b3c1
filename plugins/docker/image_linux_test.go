package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/test/dockerd"
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
	ws := dir(t, "src/a", "ignored/b")
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
		Mounts: []shared.Mount{{Source: ws, Destination: "/w", Kind: shared.MountReadWrite, Origin: "workspace"}}}
	s, _, err := opened(t, e, spec)
	if err != nil {
		t.Fatal(err)
	}
	out := sh(t, s, "cat /context/src/a; ls /context; echo RUN evil >> /w/Dockerfile; mv /w/Dockerfile /w/D; echo x > /w/src/a")
	if out.stdout != "src/a\nDockerfile\nsrc\n" {
		t.Errorf("got %+v", out)
	}
	if got, _ := os.ReadFile(ws + "/Dockerfile"); strings.Contains(string(got), "evil") {
		t.Error("a command changed what the next image is built from")
	}
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
		if !ok || e.Kind != shared.ErrUnavailable || e.Attribute != "config.image" || !strings.Contains(e.Message, says) || e.Hint == "" {
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

func TestCaches(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	projects := []string{dir(t), dir(t)}
	run := func(project int, scope, script string) string {
		t.Helper()
		s, _, err := opened(t, e, shared.Spec{
			User:    &shared.User{UID: 4242, GID: 4242},
			Options: rawOptions(t, opts{"cache": opts{"paths": []string{"/cache"}, "scope": scope, "ttl": "1h"}}),
			Mounts:  []shared.Mount{{Source: projects[project], Destination: "/w", Kind: shared.MountReadWrite, Origin: "workspace"}}})
		if err != nil {
			t.Fatal(err)
		}
		out := sh(t, s, script)
		return out.stdout + out.stderr
	}
	if out := run(0, "project", "echo kept > /cache/f"); out != "" {
		t.Fatal(out)
	}
	if out := run(0, "project", "cat /cache/f"); out != "kept\n" {
		t.Errorf("the same project: %s", out)
	}
	if out := run(1, "project", "ls -A /cache"); out != "" {
		t.Errorf("another project: %s", out)
	}
	run(0, "user", "echo all > /cache/f")
	if out := run(1, "user", "cat /cache/f"); out != "all\n" {
		t.Errorf("shared by the user's projects: %s", out)
	}
	uses, err := filepath.Glob(filepath.Join(e.surroundings.getenv("HOME"), ".cache/sbxhost/docker-cache/*/use"))
	if err != nil || len(uses) != 3 {
		t.Fatalf("%q, %v", uses, err)
	}
	for _, use := range uses {
		old := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(use, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if out := run(0, "project", "ls -A /cache"); out != "" {
		t.Errorf("of no use for longer than its ttl: %s", out)
	}
	if uses, _ = filepath.Glob(filepath.Dir(filepath.Dir(uses[0])) + "/*"); len(uses) != 1 {
		t.Errorf("what has expired is left: %q", uses)
	}
}
