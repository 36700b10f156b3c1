package probes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

func TestMain(m *testing.M) {
	actor.Hook()
	os.Exit(m.Run())
}

// What a machine does not have, such as the entry of 32-bit programs, ends an action by a fault. The
// control says whether that is the machine's doing.
func TestFaultIsLeftToTheControl(t *testing.T) {
	t.Parallel()
	engine := cmdengine.New(cmdengine.Config{
		Info: shared.Info{Name: "plain", Version: "0", Features: shared.Features{
			shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal, shared.FeatureNested, shared.FeatureHidden, shared.FeatureHomePrivate,
			shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		}},
		Launch: func(_ *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
			return &exec.Cmd{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}, nil
		},
	})
	info, err := engine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := &scene.Kit{Engine: engine, Info: info}
	if err := k.Settle(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	works := func(_ *scene.Scene, t *scene.Trial) { t.Do("open", os.DevNull) }
	for name, c := range map[string]struct {
		Probe
		status scene.Status
		detail string
	}{
		"everywhere":                    {Probe{Maybe: true, act: "die 11"}, scene.NotApplicable, "not possible on this machine without a sandbox either: the action was ended by SIGSEGV"},
		"everywhere, which must not be": {Probe{act: "die 4"}, scene.Failed, "the action was ended by SIGILL"},
		"inside alone":                  {Probe{Maybe: true, act: "die 7", grant: works}, scene.Failed, "the action was ended by SIGBUS"},
		"by another signal":             {Probe{Maybe: true, act: "die 9"}, scene.Failed, "the action said nothing"},
		"what must work":                {Probe{Maybe: true, Works: true, act: "die 11"}, scene.Failed, "the action was ended by SIGSEGV"},
	} {
		c.ID = "fault.01"
		if status, detail := c.Run(t.Context(), k); status != c.status || !strings.Contains(detail, c.detail) {
			t.Errorf("%s: %s: %s", name, status, detail)
		}
	}
}

// A file that its owner gives to itself is no other user's, whoever the owner is. What an
// action that has nothing to show has done is said as well.
func TestFilesOfOtherUsers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [...]struct{ act, want string }{{"chown", `"denied"`}, {"unlink", `"got","detail":"unlink: done"`}} {
		cmd := exec.Command("/proc/self/exe", actor.Arg, c.act, file)
		cmd.Env = []string{actor.Env}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 12345, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 12345, HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %q, %v", c.act, out, err)
		}
	}
}
