//go:build unix && !linux

package dial

import (
	"syscall"

	"golang.org/x/sys/unix"
)

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

// listenerOf is the process that listens at the other end of a socket.
func listenerOf(fd int) (pid int, err error) {
	return unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
}
