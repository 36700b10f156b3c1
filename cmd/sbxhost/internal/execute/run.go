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
	"github.com/sbxhost/sbxhost/shared"
)

// RunAndReport is run, with what -result asks for.
func (e *Execution) RunAndReport() int {
	status, err := e.run()
	if e.report.Outcome == "" { // it did not come to a command
		e.report = host.Refused("", err)
	}
	if e.shell {
		for _, line := range networkSummary(e.report.Network) {
			e.Say(line)
		}
	}
	e.report.Sandbox = e.sandboxName()
	defer e.span.End(e.report) // last: whoever waits for the result has it
	if e.Remote.leaves() {
		return status
	}
	if e.setup == nil {
		// There is no configuration that could be read; its error is told.
		if err := e.preparation.open(e, host.Options{}); err != nil {
			return e.Fail(err)
		}
	}
	ended := &Result{Version: 1, Report: e.report, Session: e.report.Session.Name, Status: status}
	e.events.write("ended", time.Now(), ended)
	if err := e.events.close(); err != nil {
		ended.Status = e.Fail(err)
	}
	if e.output != nil {
		if err := e.output.write(ended); err != nil {
			return e.Fail(err)
		}
	}
	return ended.Status
}

// sandboxName is the best that is known.
func (e *Execution) sandboxName() string {
	if e.setup != nil && e.setup.Sandbox != "" {
		return e.setup.Sandbox
	}
	return e.flags.Sandbox
}

// run runs the command, tells what went wrong, and gives the status to exit
// with and how the command ended.
func (e *Execution) run() (status int, err error) {
	signals, notified := e.Remote.notify()
	defer func() {
		<-notified
		if e.span == nil {
			signal.Stop(signals)
		}
	}()
	begin := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var early syscall.Signal // ended us before the command ran
	relayEnded, started, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	relay := e.newRelay(cancel)
	relay.Started, relay.Finished = started, finished
	relay.Cancel = func(sig syscall.Signal) {
		early = cmp.Or(early, sig)
		cancel()
	}
	defer e.terminal.Restore() // in a panic, too

	go func() {
		defer close(relayEnded)
		relay.Run(signals) // what it needs of the command is there once started is closed
	}()
	defer e.Remote.endsWith(cancel)()
	for {
		err = e.prepareInTime(ctx, begin, func() { terminal.HangUp(signals) })
		// From here on a signal is ours to act on: it must not leave a command,
		// or a terminal in raw mode, behind.
		<-notified
		if err != nil {
			break
		}
		e.Remote.begin()
		if err = e.cmd.Start(); !errors.Is(err, facts.ErrOtherCaller) {
			break
		}
		e.host.Done() // the Host knows now what it differs in, and is not given again
	}
	if e.host != nil {
		defer e.host.Done()
		relay.Grace = cmp.Or(e.setup.Options.Sandboxes[e.setup.Sandbox].Limits.Grace, host.DefaultGrace)
		e.Remote.Settle(err)
		if err == nil {
			e.events.write("started", time.Now(), struct{}{})
			close(started) // upon which the relay takes the terminal
			err = e.cmd.Wait()
		}
		e.report = e.cmd.Report()
	}
	for i := range e.report.Denials {
		e.placeDenial(&e.report.Denials[i])
	}
	close(finished)
	<-relayEnded
	e.terminal.Restore()
	if e.Remote.leaves() {
		return 0, err
	}
	// What is left to do may take a while, and nothing is lost with us, unless the trace is
	// still to be sent. Each signal that is given up wakes a thread of the runtime's and
	// waits for it.
	if e.span != nil {
		e.span.Over(signals)
	} else {
		go signal.Stop(signals)
	}
	e.printChanges()
	e.printFindings(begin)
	e.printReview()
	err = e.hint(err)
	return e.status(early, err), err
}

// status tells an error that is not the command's own, and gives the status to exit with.
func (e *Execution) status(early syscall.Signal, err error) int {
	exit, ended := errors.AsType[*host.ExitError](err)
	switch {
	case early != 0 && err != nil:
		if !ended {
			e.Say(fmt.Sprintf("ended by %s before the command ran", shared.SignalName(early)))
		}
		return 128 + int(early)
	case err == nil:
		return 0
	case ended:
		e.signalJob(exit.Signal)
		return cli.ExitStatus(err)
	}
	return e.Fail(setup.WithRemedy(e.App, e.setup, &e.flags, err))
}

// newRelay relays signals to the command once it runs. cancel gives up what is waited for.
func (e *Execution) newRelay(cancel func()) *terminal.Relay {
	// Where we have a terminal to read from and to write to, the command has one of
	// its own. Never ours: it could read what is typed to others.
	e.tty = e.flags.Tty || cli.IsTerminal(e.Stdin) && cli.IsTerminal(e.Stdout)
	if e.Remote != nil {
		e.tty = e.flags.Tty || e.Remote.Typed
	}
	r := &terminal.Relay{
		Suspend: terminal.SuspendSelf, Resume: func() bool { return true }, Stop: terminal.StopAsBackground, StopDelay: terminal.StopDelay,
		Redraw: func() {}, Patience: terminal.StartPatience,
	}
	r.Forward = func(sig syscall.Signal) {
		switch err := e.cmd.Signal(sig); {
		case err == nil:
		case !errors.Is(err, os.ErrProcessDone):
			e.note(fmt.Sprintf("%s could not be passed on: %v", shared.SignalName(sig), err))
			if terminal.Ending(sig) && errors.Is(err, context.DeadlineExceeded) {
				cancel() // the engine hangs: no time of grace reaches the command
			}
		case terminal.Ending(sig):
			cancel() // what is left to be done after the command is not waited for
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
			// A program that draws the whole screen does so anew when the size
			// changes, which the shell outside has drawn over meanwhile. It does not
			// look if it finds the old size again, so that takes a moment.
			resize(1)
			time.AfterFunc(redrawDelay, r.Resize)
		}
	}
	if e.Remote != nil {
		r.Suspend = e.Remote.suspend
	}
	if !e.tty || e.Remote != nil {
		return r
	}
	e.terminal = terminal.Open(e.Stdin, e.flags.Tty)
	if !e.flags.Tty {
		// A job in the background goes on, as others do that do not read.
		r.Stop, r.StopDelay = nil, terminal.ForegroundPoll
	}
	r.Suspend = func() {
		e.terminal.Restore()
		terminal.SuspendSelf()
	}
	r.Resume = func() bool {
		if !e.cmd.TTY { // its engine takes none
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

// redrawDelay is how long a command has to see that its terminal's size has changed.
const redrawDelay = 50 * time.Millisecond

func (e *Execution) size() host.TerminalSize {
	return terminal.Size(e.Stdin, e.Stdout, e.Stderr)
}

// signalJob is as of [terminal.Outer.SignalJob].
func (e *Execution) signalJob(sig syscall.Signal) {
	e.terminal.SignalJob(sig)
	if e.Remote != nil {
		e.Remote.Ended = sig // the terminal is the client's
	}
}
