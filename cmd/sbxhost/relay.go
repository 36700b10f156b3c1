package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	deedResume              // take the terminal
	deedRedraw              // have the command draw its screen again
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
		return []action{{do: deedResume}, {deedForward, sig}, {do: deedRedraw}}
	case syscall.SIGWINCH:
		return []action{{do: deedResize}}
	}
	return nil // SIGPIPE: a write to a closed pipe is an error, not our end
}

// relayed is what carries out a relay's decisions.
type relayed struct {
	grace     time.Duration
	forward   func(syscall.Signal)
	suspend   func()
	resume    func() bool   // take the terminal, unless we are in the background; also when the command begins to run
	stop      func()        // as the kernel does with who wants the terminal in the background; nil looks again
	stopDelay time.Duration // how long before that
	redraw    func()
	resize    func()
	cancel    func(syscall.Signal) // a signal ends us before the command runs
	patience  time.Duration        // how long before that
	started   <-chan struct{}      // closed when the command runs
	finished  <-chan struct{}      // closed when there is nothing left to signal
}

// startPatience is how long a signal waits for a command that is about to run.
// We hear of that a little later than it happens, and a command whose handler
// could run must not be killed in its place.
const startPatience = 200 * time.Millisecond

// stopDelay is how long sbxhost goes on in the background before it stops for want
// of the terminal. A shell ends a stopped job by SIGTERM and SIGCONT, which two threads
// may receive in either order.
const stopDelay = 100 * time.Millisecond

// run relays signals until the command has ended.
func (r *relayed) run(signals <-chan os.Signal) {
	var decide relay
	var early []syscall.Signal // came before the command ran
	var expired, giveUp, stop <-chan time.Time
	started, ending := r.started, false
	resume := func() {
		stop = nil
		if !r.resume() {
			stop = time.After(r.stopDelay)
		}
	}
	arm := func() {
		if !ending {
			ending, expired = true, time.After(r.grace)
		}
	}
	for {
		select {
		case <-r.finished:
			return
		case <-started:
			started, giveUp = nil, nil
			resume()
			r.resize() // it may have changed since the command's was made
			for _, sig := range early {
				r.forward(sig)
				arm()
			}
			early = nil
		case <-giveUp:
			r.cancel(early[0])
			early, giveUp = nil, nil
		case <-stop:
			switch stop = nil; {
			case r.stop == nil:
				resume() // no signal tells of the way to the foreground
				r.resize()
			case !ending:
				r.stop() // SIGCONT goes on
			}
		case <-expired:
			r.forward(syscall.SIGKILL)
			expired = nil
		case received := <-signals:
			sig, ok := received.(syscall.Signal)
			if !ok {
				continue
			}
			running := started == nil
			for _, act := range decide.on(sig) {
				switch act.do {
				case deedArm, deedKill:
					switch {
					case running && act.do == deedArm:
						arm()
					case running:
						r.forward(syscall.SIGKILL)
					case len(early) == 0:
						early, giveUp = append(early, sig), time.After(r.patience)
					case act.do == deedKill:
						r.cancel(early[0])
						early, giveUp = nil, nil
					default:
						early = append(early, sig)
					}
				case deedSuspend:
					r.suspend()
				case deedForward:
					if running {
						r.forward(act.sig)
					}
				case deedResume:
					if running {
						resume()
					}
				case deedRedraw:
					if running {
						r.redraw()
					}
				case deedResize:
					if running {
						r.resize()
					}
				}
			}
		}
	}
}

// ending reports whether a signal is to end the command.
func ending(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL:
		return true
	}
	return false
}

// notify asks for the signals that are relayed. One that our caller ignores,
// as nohup does SIGHUP, stays ignored.
func notify(signals chan<- os.Signal) {
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
}

// suspendSelf stops this process until somebody continues it.
func suspendSelf() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// suspendJob stops our job as the kernel does at ^Z, unless it is the terminal's
// first: then there is no shell that could continue it.
func suspendJob() {
	if session, err := unix.Getsid(0); err == nil && session != unix.Getpgrp() {
		syscall.Kill(0, syscall.SIGTSTP)
	}
}

// stopAsBackground stops our job as the kernel does when one in the background
// touches the terminal, so that a shell says why. A shell that cannot continue
// us is not there, and then the kernel does nothing.
func stopAsBackground() { syscall.Kill(0, syscall.SIGTTOU) }
