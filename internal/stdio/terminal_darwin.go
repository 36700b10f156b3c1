package stdio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// unlockSlave lets the other end of a terminal be opened, by the name that it gives.
func unlockSlave(master int) (string, error) {
	var name [128]byte // which the request's number says
	for _, request := range []uintptr{unix.TIOCPTYGNAME, unix.TIOCPTYGRANT, unix.TIOCPTYUNLK} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), request, uintptr(unsafe.Pointer(&name))); errno != 0 {
			return "", errno
		}
	}
	return unix.ByteSliceToString(name[:]), nil
}

const iUTF8 = unix.IUTF8

// noKey stands for a key that a terminal does not have.
const noKey = 0xff

// ignores reports whether a process ignores a signal. One of which nobody knows does.
func ignores(pid int, sig syscall.Signal) bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err != nil || info.Proc.P_sigignore&(1<<(sig-1)) != 0
}
