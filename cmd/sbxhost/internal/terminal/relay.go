package terminal

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/serve"
)

// ForegroundPoll is how often a question in the background checks whether it still is there.
const ForegroundPoll = 100 * time.Millisecond

// Relay passes sbxhost's signals on to the command.
type Relay struct {
	Grace     time.Duration
	Forward   func(syscall.Signal) // to the command's process group; SIGKILL to all its processes
	Suspend   func()
	Resume    func() bool   // take the terminal, unless in the background; also when the command begins to run
	Stop      func()        // as the kernel does to a background process that wants the terminal; nil checks again
	StopDelay time.Duration // how long before that
	Redraw    func()
	Resize    func()
	Cancel    func(syscall.Signal) // a signal ends this process: the command did not get it
	Patience  time.Duration        // how long before that
	Started   <-chan struct{}      // closed when the command runs
	Finished  <-chan struct{}      // closed when there is nothing left to signal
	Taken     int                  // how many signals have come, when Run returns

	running     bool
	interrupted bool             // a SIGINT came before
	early       []syscall.Signal // signals that end, from before it was known that the command runs
	told        []syscall.Signal // SIGUSR1 and SIGUSR2, likewise
	// Timers: for the command's end, for its start, for the terminal, and for the start before this
	// process stops. The last one exists because the command may run by now and would go on.
	expired, giveUp, foreground, stopping <-chan time.Time
	graced                                bool
}

// StartPatience is how long a signal waits for a command that is about to run. This process learns
// of the start a little later, and must not kill a command whose handler could run.
const StartPatience = 200 * time.Millisecond

// StopDelay is how long sbxhost goes on in the background before it stops because it lacks the
// terminal. A shell ends a stopped job by SIGTERM and SIGCONT, and two threads may receive these in
// either order.
const StopDelay = 100 * time.Millisecond

// Run relays signals until the command has ended, and those that have come by then.
func (r *Relay) Run(signals <-chan os.Signal) {
	started := r.Started
	for {
		select {
		case <-r.Finished:
			for len(signals) > 0 {
				r.on((<-signals).(syscall.Signal))
			}
			if len(r.early) > 0 {
				r.giveIn()
			}
			return
		case <-started:
			started, r.giveUp, r.running = nil, nil, true
			r.take()
			r.Resize() // it may have changed since the creation of the command's terminal
			for _, sig := range r.told {
				r.Forward(sig)
			}
			for _, sig := range r.early {
				r.end(sig)
			}
			r.early = nil
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
				r.take() // no signal reports a move to the foreground
				r.Resize()
			case !r.graced:
				r.Stop() // SIGCONT continues here
			}
		case <-r.expired:
			r.expired = nil
			r.Forward(syscall.SIGKILL)
		case sig := <-signals:
			r.on(sig.(syscall.Signal))
		}
	}
}

// on handles a signal. It ignores SIGPIPE: a write to a closed pipe is an error, and does not end
// this process.
func (r *Relay) on(sig syscall.Signal) {
	r.Taken++
	switch {
	case serve.Ending(sig):
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
		if (sig == syscall.SIGUSR1 || sig == syscall.SIGUSR2) && !slices.Contains(r.told, sig) {
			r.told = append(r.told, sig)
		}
	case sig == syscall.SIGUSR1, sig == syscall.SIGUSR2, sig == syscall.SIGSTOP: // SIGSTOP is from a client that stops
		r.Forward(sig)
	case sig == syscall.SIGCONT:
		r.take()
		r.Forward(sig)
		r.Redraw()
	case sig == syscall.SIGWINCH:
		r.Resize()
	}
}

// stopBoth stops the command and then this process. The command's group is in its own session and
// therefore orphaned: the kernel drops a SIGTSTP to it.
func (r *Relay) stopBoth() {
	r.Forward(syscall.SIGSTOP)
	r.Suspend()
}

// end makes a signal end the command, within its grace period.
func (r *Relay) end(sig syscall.Signal) {
	r.Forward(sig)
	if !r.graced {
		r.graced, r.expired = true, time.After(r.Grace)
	}
}

// giveIn makes a signal end this process instead of the command.
func (r *Relay) giveIn() {
	r.Cancel(r.early[0])
	r.early, r.giveUp = nil, nil
}

// take takes the terminal, or schedules another try.
func (r *Relay) take() {
	r.foreground = nil
	if !r.Resume() {
		r.foreground = time.After(r.StopDelay)
	}
}

// Notify subscribes to the relayed signals. A signal that the caller ignores, as nohup does with
// SIGHUP, stays ignored.
func Notify(signals chan<- os.Signal) {
	for _, sig := range [...]os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGUSR2,
		// Catch it instead of ignoring it: the command would inherit that, and must die of a closed
		// pipe as always.
		syscall.SIGPIPE,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
}

// HangUp handles the loss of the terminal. The kernel signals only the session's leader and the job
// in the foreground.
func HangUp(signals chan<- os.Signal) {
	if !signal.Ignored(syscall.SIGHUP) {
		signals <- syscall.SIGHUP
	}
}

// SuspendSelf stops this process until somebody continues it.
func SuspendSelf() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// SuspendJob stops this job as the kernel does at ^Z, unless it is the terminal's first job: then
// no shell could continue it.
func SuspendJob() {
	if session, err := unix.Getsid(0); err == nil && session != unix.Getpgrp() {
		syscall.Kill(0, syscall.SIGTSTP)
	}
}

// StopAsBackground stops this job as the kernel does when a background job touches the terminal, so
// that a shell says why. Without a shell that could continue the job, the kernel does nothing.
func StopAsBackground() { syscall.Kill(0, syscall.SIGTTOU) }
