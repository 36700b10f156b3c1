package sandboxinit

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// passed are the signals that the init hands to the command when something
// outside sends them to the init: docker stop sends SIGTERM to pid 1.
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

// signalHandlers are the Go runtime's, for the passed signals.
type signalHandlers [len(passed)]sigaction

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
func (h *signalHandlers) silence() {
	for i, sig := range passed {
		rtSigaction(sig, nil, &h[i])
	}
	var byDefault sigaction
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		rtSigaction(sig, &byDefault, nil)
	}
}

// restore puts back the handlers that signal.Notify takes to be in place.
func (h *signalHandlers) restore() {
	for i, sig := range passed {
		rtSigaction(sig, &h[i], nil)
	}
}

func rtSigaction(sig syscall.Signal, set, old *sigaction) {
	// It fails for SIGKILL and SIGSTOP, which have no handler.
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(old)), unsafe.Sizeof(sigaction{}.mask), 0, 0)
}
