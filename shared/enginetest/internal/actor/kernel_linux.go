package actor

import (
	"errors"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelActions make system calls that no command needs.
func kernelActions() map[string]action {
	return map[string]action{
		"do": func(args []string) (string, error) {
			errno := do(args)
			if errno != 0 {
				return "", errno
			}
			return args[0] + " succeeds", nil
		},
		"call":  func(args []string) (string, error) { return reached(do(args)) },
		"int80": int80Keyctl,
	}
}

// calls returns the numbers of the system calls that do makes; archCalls has those of one architecture.
func calls() map[string]uintptr {
	return map[string]uintptr{
		"acct": unix.SYS_ACCT, "add_key": unix.SYS_ADD_KEY, "adjtimex": unix.SYS_ADJTIMEX, "bpf": unix.SYS_BPF, "chroot": unix.SYS_CHROOT,
		"clone3": unix.SYS_CLONE3, "delete_module": unix.SYS_DELETE_MODULE, "fanotify_init": unix.SYS_FANOTIFY_INIT,
		"fchmod": unix.SYS_FCHMOD, "fchmodat": unix.SYS_FCHMODAT, "fchmodat2": unix.SYS_FCHMODAT2, "fchdir": unix.SYS_FCHDIR, "finit_module": unix.SYS_FINIT_MODULE,
		"fsopen": unix.SYS_FSOPEN, "init_module": unix.SYS_INIT_MODULE, "io_uring_setup": unix.SYS_IO_URING_SETUP, "ioctl": unix.SYS_IOCTL,
		"kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "kexec_load": unix.SYS_KEXEC_LOAD, "keyctl": unix.SYS_KEYCTL, "kill": unix.SYS_KILL,
		"mknodat": unix.SYS_MKNODAT, "mount": unix.SYS_MOUNT, "mount_setattr": unix.SYS_MOUNT_SETATTR, "move_mount": unix.SYS_MOVE_MOUNT,
		"msgget": unix.SYS_MSGGET, "open_tree": unix.SYS_OPEN_TREE, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "openat": unix.SYS_OPENAT, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
		"personality": unix.SYS_PERSONALITY, "pidfd_getfd": unix.SYS_PIDFD_GETFD, "pivot_root": unix.SYS_PIVOT_ROOT, "prlimit64": unix.SYS_PRLIMIT64,
		"process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "ptrace": unix.SYS_PTRACE,
		"reboot": unix.SYS_REBOOT, "renameat2": unix.SYS_RENAMEAT2, "request_key": unix.SYS_REQUEST_KEY, "sethostname": unix.SYS_SETHOSTNAME, "setgroups": unix.SYS_SETGROUPS,
		"setns": unix.SYS_SETNS, "setpriority": unix.SYS_SETPRIORITY, "setresuid": unix.SYS_SETRESUID, "setxattr": unix.SYS_SETXATTR,
		"shmget": unix.SYS_SHMGET, "socket": unix.SYS_SOCKET, "swapon": unix.SYS_SWAPON, "syslog": unix.SYS_SYSLOG, "umount2": unix.SYS_UMOUNT2, "userfaultfd": unix.SYS_USERFAULTFD,
	}
}

// do makes a system call: NAME ARGUMENT... An argument is a number, or a text, of which the kernel gets
// the address; zeros follow it.
func do(args []string) unix.Errno {
	number, ok := calls()[args[0]]
	if !ok {
		number, ok = archCalls[args[0]]
	}
	if !ok {
		panic(absent("there is no such call on this architecture"))
	}
	var a [6]uintptr
	var texts [][]byte
	for i, arg := range args[1:] {
		if n, err := strconv.ParseInt(arg, 0, 64); err == nil {
			a[i] = uintptr(n)
			continue
		}
		if unquoted, err := strconv.Unquote(`"` + arg + `"`); err == nil {
			arg = unquoted
		}
		texts = append(texts, append([]byte(arg), make([]byte, 256)...))
		a[i] = uintptr(unsafe.Pointer(&texts[len(texts)-1][0]))
	}
	value, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	runtime.KeepAlive(texts)
	if value != 0 {
		result = int(value)
	}
	return errno
}

// reached judges a call that either does its harmless work, or has arguments that the kernel refuses
// with an error of its own, which tells that the call was let through.
func reached(errno unix.Errno) (string, error) {
	switch errno {
	case 0:
		return "it succeeds", nil
	case unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EIO: // the last for TIOCSTI, by a kernel without it
		return "", errno
	}
	return "it reaches the kernel, which says: " + errno.Error(), nil
}

// endsBy has a signal end this process as it would end any other program: the Go
// runtime's handler, which would print and exit, is taken away.
func endsBy(sig syscall.Signal) error {
	// No core, neither into a file nor to a program that core_pattern names, which no
	// limit of its size keeps from it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var zero [4]uint64 // the kernel's struct sigaction, with the default disposition
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&zero)), 0, 8, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// dieBy ends this process by a signal.
func dieBy(sig syscall.Signal) error {
	if err := endsBy(sig); err != nil {
		return err
	}
	var none uint64 // threads may have it blocked
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
	return errors.Join(unix.Tgkill(unix.Getpid(), unix.Gettid(), sig), errors.New("it lives on"))
}
