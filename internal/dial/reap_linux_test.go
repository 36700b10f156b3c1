package dial

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// While somebody signals an engine's group, the engine is not reaped: its number, and that of the
// group, would be free for others.
func TestReapedAfterASignalIsSent(t *testing.T) {
	t.Parallel()
	r := newRunner(&exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "600"}, SysProcAttr: engineSysProcAttr()})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer r.Stderr().Close()
	pid := r.cmd.Process.Pid
	ended := func(options int) error {
		return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT|options, nil)
	}
	r.mu.Lock() // as [runner.signal] has it
	syscall.Kill(pid, syscall.SIGKILL)
	err := ended(0)
	for stacks := make([]byte, 1<<20); err == nil; err = ended(unix.WNOHANG) {
		if text := string(stacks[:runtime.Stack(stacks, true)]); reapWaits(text) {
			break
		}
	}
	if err != nil {
		t.Errorf("it was reaped while it was signalled: %v", err)
	}
	if err := syscall.Kill(-pid, 0); err != nil {
		t.Errorf("its group is gone: %v", err)
	}
	r.mu.Unlock()
	<-r.exited
	if err := r.signal(syscall.SIGKILL); err != os.ErrProcessDone {
		t.Errorf("a signal after that: %v", err)
	}
}

// reapWaits reports whether what reaps waits for the lock.
func reapWaits(stacks string) bool {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(stack, "sync.(*Mutex).Lock") && strings.Contains(stack, "dial.(*runner)") {
			return true
		}
	}
	return false
}
