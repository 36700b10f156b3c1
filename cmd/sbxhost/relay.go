package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// action is what a signal to sbxhost leads to.
type action struct {
	do  deed
	sig syscall.Signal // of deedForward
}

type deed int

const (
	deedForward deed = iota // to the command's process group
	deedArm                 // start the grace period, unless it runs already
	deedKill                // the whole tree
	deedSuspend             // stop ourselves
	deedResume              // take the terminal again
	deedResize              // tell the command's terminal its size
)

// relay decides what each signal leads to.
type relay struct {
	interrupted bool // a SIGINT came before
}

func (r *relay) on(sig syscall.Signal) []action {
	switch sig {
	case syscall.SIGINT:
		if r.interrupted {
			return []action{{do: deedKill}}
		}
		r.interrupted = true
		return []action{{deedForward, sig}, {do: deedArm}}
	case syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return []action{{deedForward, sig}, {do: deedArm}}
	case syscall.SIGTSTP:
		// The command's group is in a session of its own and so orphaned: the
		// kernel drops a SIGTSTP to it.
		return []action{{deedForward, syscall.SIGSTOP}, {do: deedSuspend}}
	case syscall.SIGCONT:
		return []action{{do: deedResume}, {deedForward, sig}}
	case syscall.SIGWINCH:
		return []action{{do: deedResize}}
	}
	return nil // SIGPIPE: a write to a closed pipe is an error, not our end
}

// relayed is what carries out a relay's decisions.
type relayed struct {
	grace    time.Duration
	forward  func(syscall.Signal)
	suspend  func()
	resume   func()
	resize   func()
	cancel   func(syscall.Signal) // a signal ends us before the command runs
	started  <-chan struct{}      // closed when the command runs
	finished <-chan struct{}      // closed when there is nothing left to signal
}

// run relays signals until the command has ended.
func (r *relayed) run(signals <-chan os.Signal) {
	var decide relay
	var expired <-chan time.Time
	started := r.started
	for {
		select {
		case <-r.finished:
			return
		case <-started:
			started = nil
		case <-expired:
			r.forward(syscall.SIGKILL)
			expired = nil
		case received := <-signals:
			sig, ok := received.(syscall.Signal)
			if !ok {
				continue
			}
			running := isClosed(r.started)
			for _, act := range decide.on(sig) {
				switch act.do {
				case deedForward:
					if running {
						r.forward(act.sig)
					}
				case deedArm:
					if !running {
						r.cancel(sig)
					} else if expired == nil {
						timer := time.NewTimer(r.grace)
						defer timer.Stop()
						expired = timer.C
					}
				case deedKill:
					if running {
						r.forward(syscall.SIGKILL)
					}
				case deedSuspend:
					r.suspend()
				case deedResume:
					r.resume()
				case deedResize:
					r.resize()
				}
			}
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// notify asks for the signals that are relayed. One that our caller ignores,
// as nohup does SIGHUP, stays ignored.
func notify() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	for _, sig := range [...]os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH,
		// Caught, not ignored: what is ignored is inherited, and the command
		// must die of a closed pipe as always.
		syscall.SIGPIPE,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// suspendSelf stops this process until somebody continues it.
func suspendSelf() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
