package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
)

// dockerLayout builds sbxhost as it is installed with the docker engine, and
// starts a daemon.
func dockerLayout(t testing.TB) (top, layout string, d *dockerd.Daemon) {
	t.Helper()
	requireBwrap(t)
	d, err := dockerd.Docker.Start(t.Context())
	if errors.Is(err, dockerd.ErrMissing) && !required("docker") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	if top, err = filepath.Abs(".."); err != nil {
		t.Fatal(err)
	}
	layout = filepath.Join(t.TempDir(), "bin")
	build(t, layout, "cmd/sbxhost", "plugins/docker/sbxhost-engine-docker", "plugins/native/sbxhost-engine-native", "cmd/sbxhost-init")
	return top, layout, d
}

func TestDockerScripts(t *testing.T) {
	t.Parallel()
	top, layout, d := dockerLayout(t)
	deadline, _ := t.Deadline()
	testscript.Run(t, testscript.Params{
		Dir:                 "dockerscript",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            deadline,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DOCKER_HOST", "unix://"+d.Socket)
			return setupScript(env, top, layout)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "lines": lines, "await": await},
	})
}

// TestMixedEngines has steps in bwrap and docker by turns and at once, on one
// workspace and from one Host: what either writes, the other sees.
func TestMixedEngines(t *testing.T) {
	t.Parallel()
	_, layout, d := dockerLayout(t)
	ws := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	image := []byte(`{"image":"` + dockerd.Image + `","pull":"never"}`)
	h, err := host.New(ctx, host.Options{
		EngineDir: layout,
		Environ:   []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "DOCKER_HOST=unix://" + d.Socket},
		Workspace: host.WorkspaceOptions{Root: ws},
		Sandboxes: map[string]host.Definition{
			"fast": {Engine: "native"},
			"full": {Engine: "docker", Config: image, Env: map[string]string{"PATH": "/bin"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	run := func(sandbox, script string) string {
		t.Helper()
		out, err := h.Command(ctx, sandbox, "/bin/sh", "-c", script).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %s: %v: %s", sandbox, script, err, out)
		}
		return string(out)
	}
	// By turns: each adds a line to what the one before has left.
	turns := []string{"fast", "full", "fast", "full"}
	for i, sandbox := range turns {
		run(sandbox, fmt.Sprintf("echo %d %s >> log; wc -l < log", i, sandbox))
	}
	log, err := os.ReadFile(filepath.Join(ws, "log"))
	if want := "0 fast\n1 full\n2 fast\n3 full\n"; err != nil || string(log) != want {
		t.Errorf("got %q, %v", log, err)
	}
	if busybox := run("full", "readlink /bin/ls"); busybox != "busybox\n" {
		t.Errorf("the image's own root: %q", busybox)
	}
	// At once: a pipeline through the workspace, whose stages are in different
	// engines, and others beside it.
	run("fast", "mkfifo a b")
	var wg sync.WaitGroup
	stage := func(sandbox, script, want string) {
		wg.Go(func() {
			if got := run(sandbox, script); got != want {
				t.Errorf("%s: %q", sandbox, got)
			}
		})
	}
	stage("full", "cat b", "THROUGH\n")
	stage("full", "cat a | tr a-z A-Z > b", "")
	stage("fast", "echo through > a", "")
	for i := range 4 {
		stage(turns[i], fmt.Sprintf("echo %d > f%d; cat f%d", i, i, i), fmt.Sprintln(i))
	}
	wg.Wait()
	for i := range 4 {
		if got, err := os.ReadFile(filepath.Join(ws, fmt.Sprintf("f%d", i))); string(got) != fmt.Sprintln(i) {
			t.Errorf("f%d: %q, %v", i, got, err)
		}
	}
}
