package docker

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
)

// daemonEnv names one of the following daemons, which the tests of this package then use in place of
// root's Docker.
const daemonEnv = "SBXHOST_TEST_DAEMON"

const (
	podman         = "podman"
	rootlessPodman = "rootless podman"
	rootlessDocker = "rootless docker"
)

func withPodman() bool { d := os.Getenv(daemonEnv); return d == podman || d == rootlessPodman }

func withRootless() bool {
	d := os.Getenv(daemonEnv)
	return d == rootlessPodman || d == rootlessDocker
}

// daemonPart is what SBXHOST_REQUIRE calls the daemon of these tests.
func daemonPart() string {
	switch os.Getenv(daemonEnv) {
	case podman, rootlessPodman:
		return "podman"
	case rootlessDocker:
		return "rootlesskit"
	}
	return "docker"
}

// TestPodman runs the tests of this package once more, with Podman. A short run has
// Docker as root, and Podman as an ordinary user, who runs the tests that are named here.
// Not in parallel: one daemon at a time is enough.
func TestPodman(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run has Podman without root")
	}
	againWith(t, podman, dockerd.Podman.Missing(), "TestStatusAndStreams", "TestHidden", "TestEngineKilled", "TestConformanceInContainers")
}

// TestRootlessPodman does so as an ordinary user, without any right over the
// machine.
func TestRootlessPodman(t *testing.T) {
	againWith(t, rootlessPodman, dockerd.RootlessPodman.Missing(), "TestStatusAndStreams", "TestHidden", "TestEngineKilled", "TestConformanceInContainers", "TestRootless", "TestRootlessLimits")
}

// TestRootlessDocker is likewise.
func TestRootlessDocker(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run has Docker with root")
	}
	againWith(t, rootlessDocker, dockerd.RootlessDocker.Missing(), "TestStatusAndStreams", "TestHidden", "TestEngineKilled", "TestConformanceInContainers", "TestRootless", "TestRootlessLimits")
}

func againWith(t *testing.T, daemon string, missing error, passing ...string) {
	if os.Getenv(daemonEnv) != "" {
		return
	}
	part := strings.Replace(strings.TrimPrefix(daemon, "rootless "), "docker", "rootlesskit", 1)
	if errors.Is(missing, dockerd.ErrUser) {
		t.Skip(missing) // the tests' run as the other user has it
	}
	if missing != nil {
		if required(part) {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	runtime.LockOSThread() // whose end the parent-death signal would tell
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.parallel=4", "-test.skip=^(TestPodman|TestRootlessPodman|TestRootlessDocker)$")
	if testing.Short() {
		cmd.Args = append(cmd.Args, "-test.short", "-test.run=^("+strings.Join(passing, "|")+")$")
	}
	cmd.Env = append(os.Environ(), daemonEnv+"="+daemon, "SBXHOST_REQUIRE="+part)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.CombinedOutput()
	for _, test := range passing {
		if !strings.Contains(string(out), "--- PASS: "+test+" ") {
			t.Errorf("%s has not passed", test)
		}
	}
	if err != nil || t.Failed() {
		t.Errorf("%v\n%s", err, out)
	}
}
