package stdio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios, bytesWaiting = unix.TIOCGETA, unix.TIOCSETA, 0x4004667f // FIONREAD

// unlockSlave allows the other side of a terminal to be opened, and returns its name.
func unlockSlave(master int) (string, error) {
	var name [128]byte // the request's number encodes this size
	for _, request := range []uintptr{unix.TIOCPTYGNAME, unix.TIOCPTYGRANT, unix.TIOCPTYUNLK} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), request, uintptr(unsafe.Pointer(&name))); errno != 0 {
			return "", errno
		}
	}
	return unix.ByteSliceToString(name[:]), nil
}

// noKey is the value of a key that a terminal does not have.
const noKey = 0xff

// ignores reports whether a process ignores a signal. It is true if the process is unknown.
func ignores(pid int, sig syscall.Signal) bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err != nil || info.Proc.P_sigignore&(1<<(sig-1)) != 0
}
