package stdio

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

const iUTF8 = unix.IUTF8

// noKey stands for a key that a terminal does not have.
const noKey = 0xff

// ignores reports whether a process ignores a signal. One of which nobody knows does.
func ignores(pid int, sig syscall.Signal) bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err != nil || info.Proc.P_sigignore&(1<<(sig-1)) != 0
}
