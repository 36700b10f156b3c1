package sandboxinit

import (
	"os"
	"os/signal"
	"syscall"
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
