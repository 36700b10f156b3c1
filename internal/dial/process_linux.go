package dial

import (
	"syscall"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// engineSysProcAttr gives an engine a process group of its own, which keeps
// the terminal's signals from it, and the wish to end when its host does. It is
// SIGTERM, so that an engine can clean up; the channel's end says the same.
func engineSysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// reap waits for the process to end. Until it is reaped the number of its group is its own: a signal
// comes before that, or not at all.
func (r *runner) reap() {
	proc.Await(r.cmd.Process.Pid)
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.cmd.Wait()
	r.state = r.cmd.ProcessState
}
