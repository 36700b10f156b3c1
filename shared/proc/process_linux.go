package proc

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Hide keeps this process from others with its uid, as a command has: they cannot
// trace it, read its memory, or take its descriptors through /proc.
func Hide() error {
	return os.NewSyscallError("prctl PR_SET_DUMPABLE", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// SetName sets the name that ps shows, which would be the number of a descriptor.
func SetName(name string) {
	var b [16]byte
	copy(b[:len(b)-1], name)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}

// Exit ends the process at once. The Go runtime's own way does what only its
// instrumentation needs, such as the race detector's second of waiting.
func Exit(code int) {
	unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(code), 0, 0)
	panic("unreachable")
}

// sigaction is the kernel's, on amd64 and arm64.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// maxSignal is the highest signal number.
const maxSignal = 64

// IgnoreSignals makes pid 1 immune to every signal: the kernel drops those to pid 1
// that have no handler, but the Go runtime has installed one for each. It
// bypasses os/signal, for which the default is the runtime's handler, and
// which would leave more open than kill(2): a SIGSEGV forged by
// sigqueue(3) looks to the runtime like a fault of its own.
func IgnoreSignals() {
	var byDefault sigaction
	for sig := 1; sig <= maxSignal; sig++ {
		// It fails for SIGKILL and SIGSTOP, which have no handler.
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)),
			0, unsafe.Sizeof(byDefault.mask), 0, 0)
	}
}
