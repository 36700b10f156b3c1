package dial

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// engineSysProcAttr gives an engine a process group of its own, so that the terminal's signals do
// not reach it, and a signal at its host's death. It is SIGTERM, so that an engine can clean up;
// the channel's end means the same.
func engineSysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// reap waits for the process to end. Until it is reaped its group's number is its own: a signal
// comes before that, or not at all.
func (r *runner) reap() {
	proc.Await(r.cmd.Process.Pid)
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.cmd.Wait()
	r.state = r.cmd.ProcessState
}

// listenerOf is the process that listens at the other end of a socket.
func listenerOf(fd int) (pid int, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
