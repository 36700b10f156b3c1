//go:build unix && !linux

package dial

import "syscall"

// engineSysProcAttr gives an engine a process group of its own, so that the terminal's signals do
// not reach it. There is no Pdeathsig here: only the channel's end reports its host's death.
func engineSysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the process to end, and reaps it at once: this system does not report an end
// before that.
func (r *runner) reap() {
	_ = r.cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = r.cmd.ProcessState
}
