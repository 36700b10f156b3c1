package terminal

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ForegroundPoll is how often a question that was put into the background looks
// whether it is there still.
const ForegroundPoll = 100 * time.Millisecond

// Relay passes signals to sbxhost on to the command.
type Relay struct {
	Grace     time.Duration
	Forward   func(syscall.Signal) // to the command's process group; SIGKILL to the whole tree
	Suspend   func()
	Resume    func() bool   // take the terminal, unless we are in the background; also when the command begins to run
	Stop      func()        // as the kernel does with who wants the terminal in the background; nil looks again
	StopDelay time.Duration // how long before that
	Redraw    func()
	Resize    func()
	Cancel    func(syscall.Signal) // a signal ends us before the command runs
	Patience  time.Duration        // how long before that
	Started   <-chan struct{}      // closed when the command runs
	Finished  <-chan struct{}      // closed when there is nothing left to signal

	running     bool
	interrupted bool             // a SIGINT came before
	early       []syscall.Signal // came before the command ran
	// What a time is waited for: the command's end, its start, the terminal, and the start
	// before we stop: the command, which may run by now, would go on.
	expired, giveUp, foreground, stopping <-chan time.Time
	graced                                bool
}

// StartPatience is how long a signal waits for a command that is about to run.
// We hear of that a little later than it happens, and a command whose handler
// could run must not be killed in its place.
const StartPatience = 200 * time.Millisecond

// StopDelay is how long sbxhost goes on in the background before it stops for want
// of the terminal. A shell ends a stopped job by SIGTERM and SIGCONT, which two threads
// may receive in either order.
const StopDelay = 100 * time.Millisecond

// Run relays signals until the command has ended.
func (r *Relay) Run(signals <-chan os.Signal) {
	started := r.Started
	for {
		select {
		case <-r.Finished:
			return
		case <-started:
			started, r.giveUp, r.running = nil, nil, true
			r.take()
			r.Resize() // it may have changed since the command's was made
			for _, sig := range r.early {
				r.end(sig)
			}
			if r.stopping != nil {
				r.stopping = nil
				r.stopBoth()
			}
		case <-r.stopping:
			r.stopping = nil
			r.Suspend()
		case <-r.giveUp:
			r.giveIn()
		case <-r.foreground:
			switch r.foreground = nil; {
			case r.Stop == nil:
				r.take() // no signal tells of the way to the foreground
				r.Resize()
			case !r.graced:
				r.Stop() // SIGCONT goes on
			}
		case <-r.expired:
			r.expired = nil
			r.Forward(syscall.SIGKILL)
		case sig := <-signals:
			r.on(sig.(syscall.Signal))
		}
	}
}

// on does what a signal is for. A SIGPIPE is for nothing: a write to a closed pipe is
// an error, not our end.
func (r *Relay) on(sig syscall.Signal) {
	switch {
	case Ending(sig):
		again := sig == syscall.SIGINT && r.interrupted
		r.interrupted = r.interrupted || sig == syscall.SIGINT
		switch {
		case r.running && again:
			r.Forward(syscall.SIGKILL)
		case r.running:
			r.end(sig)
		case again && len(r.early) > 0:
			r.giveIn()
		default:
			if len(r.early) == 0 {
				r.giveUp = time.After(r.Patience)
			}
			r.early = append(r.early, sig)
		}
	case sig == syscall.SIGTSTP:
		if r.running {
			r.stopBoth()
		} else if r.stopping == nil {
			r.stopping = time.After(r.Patience)
		}
	case !r.running:
	case sig == syscall.SIGSTOP: // of a client that stops
		r.Forward(sig)
	case sig == syscall.SIGCONT:
		r.take()
		r.Forward(sig)
		r.Redraw()
	case sig == syscall.SIGWINCH:
		r.Resize()
	}
}

// stopBoth stops the command and then us. The command's group is in a session of its own
// and so orphaned: the kernel drops a SIGTSTP to it.
func (r *Relay) stopBoth() {
	r.Forward(syscall.SIGSTOP)
	r.Suspend()
}

// end has a signal end the command, within its grace period.
func (r *Relay) end(sig syscall.Signal) {
	r.Forward(sig)
	if !r.graced {
		r.graced, r.expired = true, time.After(r.Grace)
	}
}

// giveIn has a signal end us before the command runs.
func (r *Relay) giveIn() {
	r.Cancel(r.early[0])
	r.early, r.giveUp = nil, nil
}

// take takes the terminal, or sees to it that it is tried again.
func (r *Relay) take() {
	r.foreground = nil
	if !r.Resume() {
		r.foreground = time.After(r.StopDelay)
	}
}

// Ending reports whether a signal is to end the command.
func Ending(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL:
		return true
	}
	return false
}

// Notify asks for the signals that are relayed. One that our caller ignores,
// as nohup does SIGHUP, stays ignored.
func Notify(signals chan<- os.Signal) {
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

// HangUp is for when the terminal is gone. The kernel tells only its session's leader and the job in
// the foreground.
func HangUp(signals chan<- os.Signal) {
	if !signal.Ignored(syscall.SIGHUP) {
		signals <- syscall.SIGHUP
	}
}

// SuspendSelf stops this process until somebody continues it.
func SuspendSelf() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// SuspendJob stops our job as the kernel does at ^Z, unless it is the terminal's
// first: then there is no shell that could continue it.
func SuspendJob() {
	if session, err := unix.Getsid(0); err == nil && session != unix.Getpgrp() {
		syscall.Kill(0, syscall.SIGTSTP)
	}
}

// StopAsBackground stops our job as the kernel does when one in the background
// touches the terminal, so that a shell says why. A shell that cannot continue
// us is not there, and then the kernel does nothing.
func StopAsBackground() { syscall.Kill(0, syscall.SIGTTOU) }
