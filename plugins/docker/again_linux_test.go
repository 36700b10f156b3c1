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

// rootlessEnv has the tests of this package use a rootless daemon in place of root's.
const rootlessEnv = "SBXHOST_TEST_ROOTLESS"

func withRootless() bool { return os.Getenv(rootlessEnv) != "" }

// daemonPart is what SBXHOST_REQUIRE calls the daemon of these tests.
func daemonPart() string {
	if withRootless() {
		return "rootlesskit"
	}
	return "docker"
}

// TestRootlessDocker runs the tests of this package once more, as an ordinary user without any
// right over the machine. A short run has those that are named here.
func TestRootlessDocker(t *testing.T) {
	if withRootless() {
		return
	}
	missing := dockerd.RootlessDocker.Missing()
	if errors.Is(missing, dockerd.ErrUser) {
		t.Skip(missing) // the tests' run as the other user has it
	}
	if missing != nil {
		if required("rootlesskit") {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	runtime.LockOSThread() // whose end the parent-death signal would tell
	defer runtime.UnlockOSThread()
	passing := []string{"TestStatusAndStreams", "TestHidden", "TestEngineKilled", "TestConformanceInContainers", "TestRootless", "TestRootlessLimits"}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.parallel=4", "-test.skip=^TestRootlessDocker$")
	if testing.Short() {
		cmd.Args = append(cmd.Args, "-test.short", "-test.run=^("+strings.Join(passing, "|")+")$")
	}
	cmd.Env = append(os.Environ(), rootlessEnv+"=1", "SBXHOST_REQUIRE=rootlesskit")
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
