package sandboxinit

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// An init that makes its sandbox takes the root directory of its mount namespace away. It
// must not do so for whoever starts it by hand: as another process than pid 1, in the
// namespaces that it is told not to be in, or without being told. All of this runs in
// namespaces made for it.
func TestMakingIsRefused(t *testing.T) {
	t.Parallel()
	own, err := holder.OwnNamespaces()
	if err != nil {
		t.Fatal(err)
	}
	const all = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	for name, c := range map[string]struct {
		flags  uintptr
		spaces []string // see holder.Sandbox
		want   string
	}{
		"not pid 1":                    {all &^ syscall.CLONE_NEWPID, own, "not pid 1"},
		"in the starter's mounts":      {all &^ syscall.CLONE_NEWNS, own, "the mnt namespace is not this process's own"},
		"no namespaces to compare":     {all, nil, "the mnt namespace is not this process's own"},
		"no user namespace to compare": {all, []string{own[0], "/dev/null"}, "the user namespace is not this process's own"},
		"another user namespace":       {all, []string{own[0], "user:[1]"}, "opening"}, // goes on: there is no tree
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs, err := Pair()
			if err != nil {
				t.Fatal(err)
			}
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			self, err := os.Open("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			defer self.Close()
			files := []*os.File{self, theirs, null, null, null}
			argv := Argv(3, 4)
			id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
			group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
			cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: []string{}, Dir: "/", ExtraFiles: files,
				SysProcAttr: &syscall.SysProcAttr{Cloneflags: c.flags, UidMappings: id, GidMappings: group, Pdeathsig: syscall.SIGKILL}}
			// The parent-death signal comes when the thread ends, and threads end with what tests lock to them.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			theirs.Close()
			conn := NewConn(ours)
			defer conn.Close()
			if err := conn.Make(&holder.Sandbox{Starter: c.spaces, Steps: holder.NewPlan([]holder.Op{{Kind: holder.Seal, Dest: "/0/x"}})}); err != nil {
				t.Fatal(err)
			}
			err = conn.Start(t.Context(), Command{Args: []string{"/bin/true"}})
			failed, ok := errors.AsType[*holder.MountError](err)
			if !ok || !strings.Contains(failed.Error(), c.want) && c.want != "opening" {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if c.want == "opening" && (!ok || failed.Errno != syscall.ENOENT) {
				t.Errorf("got %v, want ENOENT of the trees", err)
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != proc.Failed {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
