package sandboxinit

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterThread puts the calling thread under a filter of system calls, for good.
func filterThread(program []byte) error {
	// Required without CAP_SYS_ADMIN, and due to every command in a sandbox.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if errno := loadFilter(program); errno != 0 {
		return errno
	}
	return nil
}

// loadFilter does it where no_new_privs is set already, and allocates nothing.
func loadFilter(program []byte) syscall.Errno {
	fprog := unix.SockFprog{Len: uint16(len(program) / unix.SizeofSockFilter), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	_, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	return errno
}
