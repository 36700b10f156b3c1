package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// kit is the contract, and of the probes those that this engine's words answer
// for. All of them pass as well, and take minutes, of a container each.
var kit = regexp.MustCompile(`^((open|end|stream|command|misuse|crowd)\..*|read\.(0[1-5]|1[09]|4[0-2]|59)|write\.(1[678]|24|3[15]|7[023])|` +
	`proc\.(0[567]|17)|kernel\.(01|05|39)|life\.0[1-5]|net\.(0[149]|18)|env\.0[145]|host\.(04|09|13|22))$`)

// smoke is what a short run tries of it: one container for each kind.
var smoke = regexp.MustCompile(`^(open\..*|read\.0[1-3]|write\.(16|24)|kernel\.01|life\.01|net\.01|env\.01)$`)

// The kit, on the engine as it is installed, with an image of the test's own.
func TestConformance(t *testing.T) {
	missing := dockerd.Podman.Missing()
	if os.Geteuid() != 0 {
		missing = dockerd.RootlessPodman.Missing()
	}
	if missing != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "podman") {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	run := kit
	if testing.Short() {
		run = smoke
	}
	env := storage(t)
	dir, err := programs.Dir("docs/examples/sbxhost-engine-podman", "cmd/sbxhost-init", "shared/enginetest/testdata/probe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(programs.Remove)
	enginetest.RunBinary(t, "", enginetest.Options{
		EngineOptions: []byte(`{"image": "localhost/` + dockerd.Image + `"}`), Program: filepath.Join(dir, "probe"),
		Brief: true, StreamBytes: 1 << 20, Run: run,
		Launch: func(ctx context.Context) (*dial.Process, error) {
			cmd := exec.Command(filepath.Join(dir, "sbxhost-engine-podman"))
			cmd.Env = env
			return dial.Launch(ctx, cmd, dial.LaunchOptions{StartTimeout: time.Minute, KeepSocket: true})
		},
	})
}

// storage gives the variables by which Podman keeps everything in a directory of
// the test's own, and an image in it. It goes by runc, since crun refuses machines that
// have both versions of control groups, and raises no limit, which takes a right.
func storage(t *testing.T) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "podman-")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"storage.conf": "[storage]\ndriver = \"vfs\"\ngraphroot = \"DIR/data\"\nrunroot = \"DIR/run\"\n",
		"containers.conf": "[containers]\ndefault_ulimits = []\n[network]\nnetwork_config_dir = \"DIR/net\"\n" +
			"[engine]\nruntime = \"runc\"\nlock_type = \"file\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\ntmp_dir = \"DIR/tmp\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"CONTAINERS_CONF=" + dir + "/containers.conf", "CONTAINERS_STORAGE_CONF=" + dir + "/storage.conf", "HOME=" + dir,
		"XDG_RUNTIME_DIR=" + dir}
	command := func(words ...string) *exec.Cmd {
		cmd := exec.Command(podman, words...)
		cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
		return cmd
	}
	t.Cleanup(func() {
		if out, err := command("ps", "--all", "--quiet").Output(); err != nil || len(out) > 0 {
			t.Errorf("containers are left: %v, %s", err, out)
			command("rm", "--all", "--force", "--time=0").Run()
		}
		if os.Geteuid() != 0 {
			// Directories of users that this one is mapped to are theirs to empty.
			command("unshare", "rm", "-rf", dir+"/data", dir+"/.local").Run()
			if raw, err := os.ReadFile(dir + "/tmp/pause.pid"); err == nil {
				if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && pid > 1 {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	image := command("import", "-", "localhost/"+dockerd.Image)
	files, err := dockerd.Archive()
	if err != nil {
		t.Fatal(err)
	}
	image.Stdin = files
	if out, err := image.CombinedOutput(); err != nil {
		t.Fatal(errors.New(string(out)), err)
	}
	return env
}
