package actor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelActions make system calls that no command needs.
func kernelActions() map[string]action {
	return map[string]action{
		"call":         call,
		"socket":       socket,
		"terminal":     terminalCall,
		"shm":          func(args []string) (string, error) { return byKey(unix.SYS_SHMGET, args[0]) },
		"msg":          func(args []string) (string, error) { return byKey(unix.SYS_MSGGET, args[0]) },
		"interface-up": interfaceUp,
	}
}

func byKey(call uintptr, key string) (string, error) {
	id, _, errno := unix.Syscall(call, uintptr(number(key)), 0, 0)
	return fmt.Sprintf("id %d", id), errnoError(errno)
}

// call makes one system call. Some do their harmless work; the others have
// arguments that the kernel refuses with an error of its own, which tells that
// they were let through.
func call(args []string) (string, error) {
	c, ok := calls()[args[0]]
	if !ok {
		return "", &absentError{"there is no such call on this architecture"}
	}
	errno := c()
	switch errno {
	case 0:
		return "it succeeds", nil
	case unix.EPERM, unix.EACCES, unix.ENOSYS:
		return "", errno
	}
	return "it reaches the kernel, which says: " + errno.Error(), nil
}

type systemCall func() unix.Errno

// errnoOf is that of an error, 0 of none, and EPERM of one that has none.
func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	errno, _ := errors.AsType[unix.Errno](err)
	return max(errno, unix.EPERM)
}

// made is a call whose arguments are numbers.
func made(number uintptr, args ...uintptr) systemCall {
	return func() unix.Errno {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		return errno
	}
}

const (
	atFDCWD  = ^uintptr(99) // -100
	nowhere  = 0            // a null pointer
	processK = ^uintptr(1)  // KEY_SPEC_PROCESS_KEYRING
)

func calls() map[string]systemCall {
	self := uintptr(os.Getpid())
	root := []byte("/\x00")
	nothing := make([]byte, 32) // a struct mount_attr that changes nothing
	keyType, keyName := []byte("user\x00"), []byte("sbxhost-probe\x00")
	at := func(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
	table := map[string]systemCall{
		"ptrace": func() unix.Errno {
			_, err := trace([]string{"child"})
			return errnoOf(err)
		},
		"process_vm_readv":  vmCopy(unix.ProcessVMReadv),
		"process_vm_writev": vmCopy(unix.ProcessVMWritev),
		"pidfd_getfd": func() unix.Errno {
			fd, err := unix.PidfdOpen(int(self), 0)
			if err == nil {
				_, err = unix.PidfdGetfd(fd, 1, 0)
			}
			return errnoOf(err)
		},
		"bpf": func() unix.Errno {
			// An array of one element of 4 bytes, gone with its descriptor.
			attr := struct{ kind, key, value, entries, flags uint32 }{2, 4, 4, 1, 0}
			return made(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))()
		},
		"userfaultfd": made(unix.SYS_USERFAULTFD, 1), // UFFD_USER_MODE_ONLY
		"perf_event_open": func() unix.Errno {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK,
				Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
			return made(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr)), 0, ^uintptr(0), ^uintptr(0), 0)()
		},
		"keyctl":  made(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, processK, 1),
		"add_key": made(unix.SYS_ADD_KEY, at(keyType), at(keyName), at(root), 1, processK),
		// There is no such key.
		"request_key":     made(unix.SYS_REQUEST_KEY, at(keyType), at(keyName), nowhere, processK),
		"kexec_load":      made(unix.SYS_KEXEC_LOAD, 0, 17, nowhere, ^uintptr(0)), // more segments than there can be
		"kexec_file_load": made(unix.SYS_KEXEC_FILE_LOAD, ^uintptr(0), ^uintptr(0), 0, nowhere, ^uintptr(0)),
		"init_module":     made(unix.SYS_INIT_MODULE, nowhere, 0, at(root[1:])),
		"finit_module":    made(unix.SYS_FINIT_MODULE, ^uintptr(0), at(root[1:]), ^uintptr(0)),
		"delete_module":   made(unix.SYS_DELETE_MODULE, at(keyName), unix.O_NONBLOCK), // there is no such module
		"io_uring_setup": func() unix.Errno {
			var params [120]byte
			return made(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])))()
		},
		"personality":   made(unix.SYS_PERSONALITY, 0x0040000), // ADDR_NO_RANDOMIZE, for this process
		"clone3":        made(unix.SYS_CLONE3, nowhere, 0),     // of no size
		"open_tree":     made(unix.SYS_OPEN_TREE, atFDCWD, at(root), 1),
		"fsopen":        func() unix.Errno { b := []byte("tmpfs\x00"); return made(unix.SYS_FSOPEN, at(b), 1)() },
		"move_mount":    made(unix.SYS_MOVE_MOUNT, atFDCWD, at(root), atFDCWD, at(root), 0),
		"mount_setattr": made(unix.SYS_MOUNT_SETATTR, atFDCWD, at(root), 0, at(nothing), uintptr(len(nothing))),
		"pivot_root":    made(unix.SYS_PIVOT_ROOT, at(root), at(root)),
		"umount2":       made(unix.SYS_UMOUNT2, at(root), unix.MNT_EXPIRE|unix.MNT_FORCE), // which exclude each other
		"swapon":        made(unix.SYS_SWAPON, at(keyName), 0),                            // no such file
		"reboot":        made(unix.SYS_REBOOT, 0, 0, 0, nowhere),
		"acct":          func() unix.Errno { b := []byte("/no/such\x00"); return made(unix.SYS_ACCT, at(b))() },
		"fanotify_init": made(unix.SYS_FANOTIFY_INIT, 0, 0),
		"adjtimex": func() unix.Errno { // to what it is
			var t unix.Timex
			_, err := unix.Adjtimex(&t)
			if err == nil {
				t.Modes = 0x4000 // ADJ_TICK
				_, err = unix.Adjtimex(&t)
			}
			return errnoOf(err)
		},
		"sethostname": func() unix.Errno { // to what it is
			name, err := os.Hostname()
			tried(err)
			return errnoOf(unix.Sethostname([]byte(name)))
		},
	}
	archCalls(table)
	return table
}

// vmCopy copies between two places of this process.
func vmCopy(copies func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) systemCall {
	return func() unix.Errno {
		var from, to [8]byte
		local := unix.Iovec{Base: &to[0]}
		local.SetLen(len(to))
		_, err := copies(os.Getpid(), []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: len(from)}}, 0)
		return errnoOf(err)
	}
}

// socket makes one of a kind.
func socket(args []string) (string, error) {
	kinds := map[string][][3]int{
		"vsock":  {{unix.AF_VSOCK, unix.SOCK_STREAM, 0}},
		"alg":    {{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}},
		"packet": {{unix.AF_PACKET, unix.SOCK_RAW, 0}},
		"raw":    {{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}},
		"rare": {{unix.AF_BLUETOOTH, unix.SOCK_RAW, 1}, {unix.AF_CAN, unix.SOCK_RAW, 1}, {unix.AF_TIPC, unix.SOCK_RDM, 0},
			{unix.AF_RDS, unix.SOCK_SEQPACKET, 0}, {unix.AF_XDP, unix.SOCK_RAW, 0}, {unix.AF_NFC, unix.SOCK_RAW, 0}, {unix.AF_KEY, unix.SOCK_RAW, 2}},
	}
	var denied error = broken("no kind %q", args[0])
	for _, k := range kinds[args[0]] {
		fd, err := unix.Socket(k[0], k[1]|unix.SOCK_CLOEXEC, k[2])
		if err == nil {
			unix.Close(fd)
			return fmt.Sprintf("family %d", k[0]), nil
		}
		denied = fmt.Errorf("family %d: %w", k[0], err)
	}
	return "", denied
}

// terminalCall makes a request of the terminal that is standard input.
func terminalCall(args []string) (string, error) {
	name, high := strings.CutSuffix(args[0], "-high")
	char := byte('x')
	request, arg := uintptr(unix.TIOCSTI), uintptr(unsafe.Pointer(&char))
	if name == "tioclinux" {
		selection := [2]byte{6, 0} // TIOCL_GETSHIFTSTATE, which changes nothing
		request, arg = unix.TIOCLINUX, uintptr(unsafe.Pointer(&selection[0]))
	}
	if high {
		request |= 1 << 32 // the kernel looks at the lower half alone
	}
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, 0, request, arg)
	switch errno {
	case 0:
		return "it succeeds", nil
	case unix.ENOTTY:
		return "it reaches the terminal, which is no console", nil
	}
	return "", errno
}

// interfaceUp sets the flags of an interface to what they are.
func interfaceUp([]string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	tried(err)
	return "was set", errors.Join(unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifreq), unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq))
}

// sigaction is the kernel's struct with its default disposition.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// endsBy has a signal end this process as it would end any other program: the Go
// runtime's handler, which would print and exit, is taken away.
func endsBy(sig syscall.Signal) error {
	// No core, neither into a file nor to a program that core_pattern names, which no
	// limit of its size keeps from it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var zero sigaction
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&zero)), 0, 8, 0, 0)
	return errnoError(errno)
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

// lastSignal is the highest number of a signal.
const lastSignal = 64
