package enginetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// containers is the docker engine as it is installed, on a daemon of the test's
// own, where SBXHOST_REQUIRE lists docker: a container for each of some five
// hundred commands takes a minute or two. Elsewhere it is nil.
func containers(t *testing.T) (shared.Engine, enginetest.Options) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "docker") {
		return nil, enginetest.Options{}
	}
	d, err := dockerd.Docker.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	dir := t.TempDir()
	if err := programs.Copy(dir, "shared/enginetest/testdata/probe", "cmd/sbxhost-init", "plugins/docker/sbxhost-engine-docker"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(programs.Remove)
	engine := exec.Command(filepath.Join(dir, "sbxhost-engine-docker"))
	engine.Env = []string{"DOCKER_HOST=unix://" + d.Socket, "HOME=" + dir, "PATH=/usr/bin:/bin"}
	launched, err := dial.Launch(t.Context(), engine, dial.LaunchOptions{StartTimeout: time.Minute, KeepSocket: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(launched.Kill)
	return launched, enginetest.Options{
		EngineOptions: []byte(`{"image":"` + dockerd.Image + `","pull":"never"}`), Program: filepath.Join(dir, "probe"),
	}
}
