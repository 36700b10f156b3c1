//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// relay passes signals to sbxhost on to the command.
type relay struct {
	grace     time.Duration
	forward   func(syscall.Signal) // to the command's process group; SIGKILL to the whole tree
	suspend   func()
	resume    func() bool   // take the terminal, unless we are in the background; also when the command begins to run
	stop      func()        // as the kernel does with who wants the terminal in the background; nil looks again
	stopDelay time.Duration // how long before that
	redraw    func()
	resize    func()
	cancel    func(syscall.Signal) // a signal ends us before the command runs
	patience  time.Duration        // how long before that
	started   chan struct{}        // closed when the command runs
	finished  chan struct{}        // closed when there is nothing left to signal

	running     bool
	interrupted bool             // a SIGINT came before
	early       []syscall.Signal // came before the command ran
	// What a time is waited for: the command's end, its start, the terminal, and the start
	// before we stop: the command, which may run by now, would go on.
	expired, giveUp, foreground, stopping <-chan time.Time
	graced                                bool
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
func (r *relay) run(signals <-chan os.Signal) {
	started := r.started
	for {
		select {
		case <-r.finished:
			return
		case <-started:
			started, r.giveUp, r.running = nil, nil, true
			r.take()
			r.resize() // it may have changed since the command's was made
			for _, sig := range r.early {
				r.end(sig)
			}
			if r.stopping != nil {
				r.stopping = nil
				r.stopBoth()
			}
		case <-r.stopping:
			r.stopping = nil
			r.suspend()
		case <-r.giveUp:
			r.giveIn()
		case <-r.foreground:
			switch r.foreground = nil; {
			case r.stop == nil:
				r.take() // no signal tells of the way to the foreground
				r.resize()
			case !r.graced:
				r.stop() // SIGCONT goes on
			}
		case <-r.expired:
			r.expired = nil
			r.forward(syscall.SIGKILL)
		case sig := <-signals:
			r.on(sig.(syscall.Signal))
		}
	}
}

// on does what a signal is for. A SIGPIPE is for nothing: a write to a closed pipe is
// an error, not our end.
func (r *relay) on(sig syscall.Signal) {
	switch {
	case ending(sig):
		again := sig == syscall.SIGINT && r.interrupted
		r.interrupted = r.interrupted || sig == syscall.SIGINT
		switch {
		case r.running && again:
			r.forward(syscall.SIGKILL)
		case r.running:
			r.end(sig)
		case again && len(r.early) > 0:
			r.giveIn()
		default:
			if len(r.early) == 0 {
				r.giveUp = time.After(r.patience)
			}
			r.early = append(r.early, sig)
		}
	case sig == syscall.SIGTSTP:
		if r.running {
			r.stopBoth()
		} else if r.stopping == nil {
			r.stopping = time.After(r.patience)
		}
	case !r.running:
	case sig == syscall.SIGCONT:
		r.take()
		r.forward(sig)
		r.redraw()
	case sig == syscall.SIGWINCH:
		r.resize()
	}
}

// stopBoth stops the command and then us. The command's group is in a session of its own
// and so orphaned: the kernel drops a SIGTSTP to it.
func (r *relay) stopBoth() {
	r.forward(syscall.SIGSTOP)
	r.suspend()
}

// end has a signal end the command, within its grace period.
func (r *relay) end(sig syscall.Signal) {
	r.forward(sig)
	if !r.graced {
		r.graced, r.expired = true, time.After(r.grace)
	}
}

// giveIn has a signal end us before the command runs.
func (r *relay) giveIn() {
	r.cancel(r.early[0])
	r.early, r.giveUp = nil, nil
}

// take takes the terminal, or sees to it that it is tried again.
func (r *relay) take() {
	r.foreground = nil
	if !r.resume() {
		r.foreground = time.After(r.stopDelay)
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
