package proc

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Hide protects this process from other processes of its uid, such as commands: they cannot trace
// it, read its memory, or take its descriptors through /proc.
func Hide() error {
	return os.NewSyscallError("prctl PR_SET_DUMPABLE", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// SetName sets the name that ps shows. Otherwise ps would show a descriptor's number.
func SetName(name string) {
	var b [16]byte
	copy(b[:len(b)-1], name)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}

// Exit ends the process at once. Go's own exit does extra work for its instrumentation, such as the
// race detector's second of waiting.
func Exit(code int) {
	unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(code), 0, 0)
	panic("unreachable")
}

// Await returns after a child has ended, and leaves it a zombie: until the caller reaps it, nobody
// else can get its number or that of its process group. Await uses Go's poller. A thread that waits
// in the kernel occupies one of this process's Go processors until the runtime takes that away, up
// to 10 ms later; an engine has one.
func Await(pid int) {
	awaitByPoller(pid) // before Linux 5.10 the kernel waits
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

func awaitByPoller(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n == 1 || err != nil && err != unix.EINTR
	})
}

// NewMemory makes an unnamed file in memory, which keeps its size.
func NewMemory(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err = f.Truncate(size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sigaction is the kernel's, on amd64 and arm64.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// maxSignal is the highest signal number.
const maxSignal = 64

// perThread is the Go runtime's signal of [syscall.AllThreadsSyscall].
const perThread = 33

// IgnoreSignals makes pid 1 immune to every signal. The kernel drops signals to pid 1 without a
// handler, but the Go runtime installs one for each. The function bypasses os/signal, whose default
// is the runtime's handler. That would leave more open than kill(2): to the runtime, a SIGSEGV
// forged by sigqueue(3) looks like its own fault. The signal for a system call on each thread
// stays; a forged one finds no call to make.
func IgnoreSignals() {
	var byDefault sigaction
	for sig := 1; sig <= maxSignal; sig++ {
		if sig == perThread {
			continue
		}
		// It fails for SIGKILL and SIGSTOP, which have no handler.
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)),
			0, unsafe.Sizeof(byDefault.mask), 0, 0)
	}
}

// OnOwnThread runs fn on a thread that ends with it, so changes of the thread affect nobody else.
// It never uses the process's first thread, which lives forever: the kernel takes changes of that
// one, such as a Landlock domain, for the whole process's.
func OnOwnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			OnOwnThread(fn) // this thread is locked, so the call uses another
			runtime.UnlockOSThread()
		} else {
			fn() // never unlocked
		}
		close(done)
	}()
	<-done
}

// EmptyBounds removes every capability that the calling thread could gain when it executes a file.
func EmptyBounds() error {
	for c := uintptr(0); ; c++ {
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err {
		case nil:
		case unix.EINVAL:
			return nil // past the last one of this kernel
		default:
			return err
		}
	}
}

// SetCapabilities gives the calling thread exactly these capabilities, of the first 32. A program that
// it executes inherits them.
func SetCapabilities(kept uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	own := [2]unix.CapUserData{{Effective: kept, Permitted: kept, Inheritable: kept}}
	return unix.Capset(&header, &own[0])
}
