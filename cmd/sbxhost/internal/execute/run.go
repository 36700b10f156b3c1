package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/serve"
	"github.com/sbxhost/sbxhost/shared"
)

// RunAndReport is run, and writes the file of -result.
func (e *Execution) RunAndReport() int {
	status, err := e.run()
	if e.report.Outcome == "" { // no command ran
		e.report = host.Refused("", err)
	}
	if e.shell {
		for _, line := range networkSummary(e.report.Network) {
			e.Say(line)
		}
	}
	e.report.Sandbox = e.sandboxName()
	if e.Remote.leavesToClient() {
		if err != nil && e.Remote.Why == "" {
			e.Remote.Why = err.Error()
		}
		return status
	}
	if e.setup == nil {
		// No configuration could be read; the error says so.
		if err := e.preparation.open(e, host.Options{}); err != nil {
			return e.Fail(err)
		}
	}
	e.report.Status = status // a signal, say, can have come first
	ended := &Result{Version: 1, Report: e.report, Session: e.report.Session.Name}
	e.events.write("ended", time.Now(), ended)
	if err := e.events.close(); err != nil {
		ended.Status = e.Fail(err)
	}
	if e.output != nil {
		if err := e.output.write(ended); err != nil {
			return e.Fail(fmt.Errorf("%w; the status was %d", err, ended.Status))
		}
	}
	return ended.Status
}

// sandboxName returns the best known name.
func (e *Execution) sandboxName() string {
	if e.setup != nil && e.setup.Sandbox != "" {
		return e.setup.Sandbox
	}
	return e.flags.Sandbox
}

// run runs the command, reports errors, and returns the exit status and how the command ended.
func (e *Execution) run() (status int, err error) {
	signals, notified := e.Remote.notify()
	defer func() {
		<-notified
		signal.Stop(signals)
	}()
	begin := time.Now()
	life := context.Background()
	if e.Remote != nil {
		life = e.Remote.Life
	}
	ctx, cancel := context.WithCancel(life)
	defer cancel()

	var missed syscall.Signal // the signal that ends this process, because the command did not get it
	relayEnded, started, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	relay := e.newRelay(cancel)
	relay.Started, relay.Finished = started, finished
	relay.Cancel = func(sig syscall.Signal) {
		missed = cmp.Or(missed, sig)
		cancel()
	}
	defer e.terminal.Restore() // in a panic, too

	go func() {
		defer close(relayEnded)
		relay.Run(signals) // after started is closed, the command has all that the relay needs
	}()
	for {
		err = e.prepareInTime(ctx, begin, func() { terminal.HangUp(signals) })
		// From here on this process handles signals: a signal must not leave a command, or a
		// terminal in raw mode, behind.
		<-notified
		if err != nil {
			break
		}
		if err = e.cmd.Start(); !errors.Is(err, facts.ErrOtherCaller) {
			break
		}
		e.host.Done() // the Host knows its differences now, and is not used again
	}
	if e.host != nil {
		defer e.host.Done()
		relay.Grace = cmp.Or(e.setup.Options.Sandboxes[e.setup.Sandbox].Limits.Grace, host.DefaultGrace)
		e.Remote.Settle(err)
		if err == nil {
			e.events.write("started", time.Now(), struct{}{})
			close(started) // the relay then takes the terminal
			err = e.cmd.Wait()
		}
		e.report = e.cmd.Report()
	}
	for i := range e.report.Denials {
		e.placeDenial(&e.report.Denials[i])
	}
	close(finished)
	<-relayEnded
	e.Taken = relay.Taken
	e.terminal.Restore()
	if e.Remote.leavesToClient() {
		return 0, err
	}
	// The rest may take a while, and nothing is lost if this process ends. Each signal that is given
	// up wakes a thread of the runtime and waits for it.
	go signal.Stop(signals)
	e.printChanges()
	e.printFindings(begin)
	e.printReview()
	err = e.hint(err)
	return e.status(missed, err), err
}

// status reports an error that is not the command's own, and returns the exit status. The signal
// missed comes first: a shell ends a loop at ^C only if the command, or this process, died of it.
func (e *Execution) status(missed syscall.Signal, err error) int {
	exit, ended := errors.AsType[*host.ExitError](err)
	status := 0
	switch {
	case missed != 0 && err != nil && e.report.Result == nil:
		when := "before the command ran"
		if e.report.Decision == policy.Sandboxed.String() || e.report.Decision == policy.Unsandboxed.String() {
			when = "while the command was started; it may have run"
		}
		e.Say(fmt.Sprintf("ended by %s %s", shared.SignalName(missed), when))
	case ended:
		status = cli.ExitStatus(err)
	case err != nil && (missed == 0 || !errors.Is(err, context.Canceled)):
		status = e.Fail(setup.WithRemedy(e.App, e.setup, &e.flags, err))
	}
	if missed != 0 {
		status = 128 + int(missed)
	} else if ended {
		missed = exit.Signal
	}
	e.signalJob(missed)
	return status
}

// newRelay relays signals to the command after its start. cancel ends all waits.
func (e *Execution) newRelay(cancel func()) *terminal.Relay {
	// If this process has a terminal to read from and to write to, the command gets its own one. It
	// never gets this one: it could read input typed for others.
	e.tty = e.flags.Tty || cli.IsTerminal(e.Stdin) && cli.IsTerminal(e.Stdout)
	if e.Remote != nil {
		e.tty = e.flags.Tty || e.Remote.Typed
	}
	r := &terminal.Relay{
		Suspend: terminal.SuspendSelf, Resume: func() bool { return true }, Stop: terminal.StopAsBackground, StopDelay: terminal.StopDelay,
		Redraw: func() {}, Patience: terminal.StartPatience,
	}
	got := false // the command got a signal that ends: how it ended is its answer to a later one, too
	r.Forward = func(sig syscall.Signal) {
		switch err := e.cmd.Signal(sig); {
		case err == nil:
			got = got || serve.Ending(sig)
		case !errors.Is(err, os.ErrProcessDone):
			e.note(fmt.Sprintf("%s could not be passed on: %v", shared.SignalName(sig), err))
			if serve.Ending(sig) && errors.Is(err, context.DeadlineExceeded) {
				cancel() // the engine hangs: a grace period would not reach the command
			}
		case serve.Ending(sig) && !got && sig != syscall.SIGKILL:
			r.Cancel(sig)
		case serve.Ending(sig):
			cancel() // do not wait for the work after the command
		}
	}
	resize := func(more uint16) {
		if size := e.size(); size != (host.TerminalSize{}) {
			size.Rows += more
			e.cmd.Resize(size)
		}
	}
	r.Resize = func() { resize(0) }
	if e.tty {
		r.Redraw = func() {
			// A full-screen program draws again when the size changes. The outer shell has drawn
			// over its screen meanwhile. The program does nothing if it finds the old size again,
			// so that takes a moment.
			resize(1)
			time.AfterFunc(redrawDelay, r.Resize)
		}
	}
	if e.Remote != nil {
		r.Suspend = e.Remote.suspend
		return r
	}
	if !e.tty {
		return r
	}
	e.terminal = terminal.Open(e.Stdin, e.flags.Tty)
	if !e.flags.Tty {
		// A job in the background goes on, like other programs that do not read.
		r.Stop, r.StopDelay = nil, terminal.ForegroundPoll
	}
	r.Suspend = func() {
		e.terminal.Restore()
		terminal.SuspendSelf()
	}
	r.Resume = func() bool {
		if !e.cmd.TTY { // its engine takes no terminal
			return true
		}
		err := e.terminal.Raw()
		if err != nil && err != terminal.ErrBackground {
			e.note(fmt.Sprintf("the terminal cannot be made raw: %v", err))
		}
		return err != terminal.ErrBackground
	}
	return r
}

// redrawDelay is how long a command has to notice a new size of its terminal.
const redrawDelay = 50 * time.Millisecond

func (e *Execution) size() host.TerminalSize {
	return terminal.Size(e.Stdin, e.Stdout, e.Stderr)
}

// signalJob is as of [terminal.Outer.SignalJob], and reports the signal to the client, or to main.
func (e *Execution) signalJob(sig syscall.Signal) {
	e.terminal.SignalJob(sig)
	e.Ended = sig
}
