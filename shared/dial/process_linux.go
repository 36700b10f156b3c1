package dial

import "syscall"

// engineSysProcAttr gives an engine a process group of its own, which keeps
// the terminal's signals from it, and the wish to end when its host does. It is
// SIGTERM, so that an engine can clean up; the channel's end says the same.
func engineSysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
