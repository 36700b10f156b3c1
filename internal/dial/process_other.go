//go:build unix && !linux

package dial

import "syscall"

// engineSysProcAttr gives an engine a process group of its own, which keeps
// the terminal's signals from it. There is no Pdeathsig here: the channel's
// end alone tells it that its host is gone.
func engineSysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the process to end, and reaps it at once: nothing here tells that it has ended
// before.
func (r *runner) reap() {
	_ = r.cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = r.cmd.ProcessState
}
