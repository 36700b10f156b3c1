package confined

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Env names the variable with the confinement that [Enter] enters.
const Env = "SBXHOST_TEST_CONFINED"

// Enter enters a confinement in which almost everything still works: "landlock" is a Landlock domain,
// "seccomp" a filter of system calls. Both need no_new_privs, or root.
func Enter() error {
	switch os.Getenv(Env) {
	case "landlock":
		access := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
		ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&access)), unsafe.Sizeof(access), 0)
		if errno != 0 {
			return errno
		}
		return each(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0)
	case "seccomp":
		allow := unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}
		program := unix.SockFprog{Len: 1, Filter: &allow}
		return each(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	}
	return nil
}

func each(call, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}
