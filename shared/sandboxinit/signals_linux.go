package sandboxinit

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// passed are the signals that an init which is not pid 1 hands to the command.
// As pid 1 it takes signals from nobody: the engine asks by the control socket.
var passed = [...]syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

func (s *supervisor) passSignals() {
	received := make(chan os.Signal, 16)
	list := make([]os.Signal, len(passed))
	for i, sig := range passed {
		list[i] = sig
	}
	signal.Notify(received, list...)
	go func() {
		for sig := range received {
			s.signal(sig.(syscall.Signal))
		}
	}()
}

// sigaction is the kernel's, on amd64 and arm64.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// silence makes pid 1 immune to every signal: the kernel drops those to pid 1
// that have no handler, but the Go runtime has installed one for each. It
// bypasses os/signal, for which the default is the runtime's handler, and
// which would leave more open than kill(2): a SIGSEGV forged by
// sigqueue(3) looks to the runtime like a fault of its own.
func silence() {
	var byDefault sigaction
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		rtSigaction(sig, &byDefault)
	}
}

func rtSigaction(sig syscall.Signal, set *sigaction) {
	// It fails for SIGKILL and SIGSTOP, which have no handler.
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)),
		0, unsafe.Sizeof(sigaction{}.mask), 0, 0)
}
