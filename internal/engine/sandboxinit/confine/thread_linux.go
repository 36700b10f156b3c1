package confine

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// NoNewPrivileges sets no_new_privs, which processes without CAP_SYS_ADMIN need, and every command
// in a sandbox must have.
func NoNewPrivileges() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// Filter puts the calling thread under a filter of system calls, for good, and sets no_new_privs.
func Filter(program []byte) error {
	if err := NoNewPrivileges(); err != nil {
		return err
	}
	fprog := Program(program)
	if _, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return errno
	}
	return nil
}

// Program is a filter, which is not empty, in the kernel's form.
func Program(filter []byte) unix.SockFprog {
	return unix.SockFprog{Len: uint16(len(filter) / unix.SizeofSockFilter), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
}

// GiveUpCapabilities drops all capabilities of the calling thread, and of what it executes: it sets
// no_new_privs. A user without capabilities may not limit those that execution can gain, and with
// no_new_privs gains none.
func GiveUpCapabilities() error {
	if err := NoNewPrivileges(); err != nil {
		return err
	}
	if err := proc.EmptyBounds(); err != nil && err != unix.EPERM {
		return err
	}
	return proc.SetCapabilities(0)
}
