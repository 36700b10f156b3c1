package actor

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct with its default disposition.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// dieBy ends this process by a signal as any other program would end: the Go
// runtime's handler, which would print and exit, is taken away.
func dieBy(sig syscall.Signal) error {
	// No core, neither into a file nor to a program that core_pattern names, which no
	// limit of its size keeps from it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var zero sigaction
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&zero)), 0, 8, 0, 0); errno != 0 {
		return errno
	}
	var none uint64 // threads may have it blocked
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
	return errors.Join(unix.Tgkill(unix.Getpid(), unix.Gettid(), sig), errors.New("it lives on"))
}

// lastSignal is the highest number of a signal.
const lastSignal = 64
