package execute

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/session"
)

// A preparation is the state of a command before it runs.
type preparation struct {
	setup  *setup.Setup
	output *resultFile // of -result; nil until it is open
	events *eventLog   // of -events; nil until it is open
	host   *UsedHost
	cmd    *host.Cmd
}

// prepareInTime prepares until a signal or the time limit ends the command. A disk with a file to
// read may not answer.
func (e *Execution) prepareInTime(ctx context.Context, begin time.Time, hungUp func()) error {
	e.host, e.cmd = nil, nil
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // otherwise a server keeps the timer, and all that it refers to, until the limit
	limit := func(limit time.Duration) {
		timer := time.AfterFunc(time.Until(begin.Add(limit)), func() {
			cancel(fmt.Errorf("%w before the command ran, while its configuration was read", host.ErrTimedOut))
		})
		context.AfterFunc(reading, func() { timer.Stop() })
	}
	if e.flags.Timeout != nil {
		limit(*e.flags.Timeout)
	}
	p, ended := e.preparation, make(chan error, 1)
	go func() { ended <- e.prepare(&p, ctx, reading, begin, limit, hungUp) }()
	select {
	case err := <-ended:
		if reading.Err() == nil {
			e.preparation = p
			return err
		}
		ended <- err // it came too late
	case <-reading.Done():
	}
	go func() {
		if err := <-ended; err == nil {
			p.host.Done()
		}
	}()
	return context.Cause(reading)
}

// prepare reads the configuration and makes the command. It does not change the Execution, which
// may have gone on without it. It calls hungUp after the terminal is gone.
func (e *Execution) prepare(p *preparation, ctx, reading context.Context, begin time.Time, limit func(time.Duration), hungUp func()) (err error) {
	if p.setup, err = setup.Load(reading, e.App, e.flags.Config); err != nil {
		return err
	}
	s := p.setup
	if main := e.MainWorktree(s.Origin); !e.noNotes && e.Trusts(main) {
		e.Say(fmt.Sprintf("this worktree has no configuration, and the %v one holds; for that of the main worktree: -config %s", s.Origin, cli.ShellQuote(main)))
	}
	if err := p.open(e, s.Options); err != nil {
		return err
	}
	if err := setup.Choose(reading, e.App, s, &e.flags); err != nil {
		return err
	}
	timeout := s.Options.Sandboxes[s.Sandbox].Limits.Timeout
	if timeout > 0 && e.flags.Timeout == nil {
		limit(timeout)
	}
	used, err := e.Remote.host(reading, e.App, s)
	if err != nil {
		return err
	}
	cmd := setup.NewCmd(session.WithWaiter(ctx, e.waiter(s.Sandbox)), e.App, used.Host, s, &e.flags, e.args)
	cmd.Trace, cmd.Caller = e.trace, e.Remote.caller(e.App)
	if timeout > 0 {
		cmd.Timeout = max(timeout-time.Since(begin), 1)
	}
	for _, name := range cmd.Env {
		if _, set := e.LookupEnv(name); !set && !strings.Contains(name, "=") && !e.noNotes {
			e.Say("-env " + name + ": this variable is not set")
		}
	}
	if e.Remote != nil && e.Remote.AdaptTo != nil { // it leaves out what is not set
		if err := e.Remote.AdaptTo(e.App, used.Host, cmd); err != nil {
			used.Done()
			return err
		}
	}
	cmd.Decided = func(d policy.Decision) {
		e.Remote.begin()
		report := cmd.Report()
		e.printUnsandboxed(d, report.Engine)
		e.events.decided(report)
	}
	if !e.noNotes || p.events != nil {
		cmd.Events = e.event
	}
	e.connect(cmd, hungUp)
	p.host, p.cmd = used, cmd
	return nil
}

// connect gives a command this process's standard streams, or a terminal of its own.
func (e *Execution) connect(cmd *host.Cmd, hungUp func()) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Remote.stderr(e.Stderr)
	if !e.tty {
		return
	}
	cmd.TTY, cmd.TTYOptional = true, !e.flags.Tty
	cmd.Suspend, cmd.Size = terminal.SuspendJob, e.size()
	if e.Remote != nil {
		cmd.Suspend = e.Remote.suspend
	}
	if e.flags.Tty || cli.IsTerminal(e.Stderr) {
		cmd.Stderr = nil
	}
	cmd.Stdin = &terminal.TypedInput{From: e.Stdin}
	if e.terminal != nil {
		cmd.Stdin = &terminal.EOFReader{From: e.terminal, Ended: hungUp}
	} else if e.Remote != nil && e.Remote.Typed { // at a ^D, a shell would print "exit" after its client is gone
		cmd.Stdin = &terminal.EOFReader{From: e.Stdin, Ended: hungUp}
	}
}

// open opens the files of -result and -events, for commands that can write as options say.
func (p *preparation) open(e *Execution, o host.Options) (err error) {
	if e.resultPath != "" && p.output == nil {
		if p.output, err = openPlace("-result", e.resultPath, e.Dir, e.WritableDirs(o, e.resultPath)); err != nil {
			return err
		}
		p.output.ready = e.Remote.asClient
	}
	if e.eventsTo != "" && p.events == nil {
		if p.events, err = openEvents(e.eventsTo, e.Dir, e.WritableDirs(o, e.eventsTo)); err == nil && e.Remote != nil {
			err = e.Remote.asClient(p.events.file) // the client's descriptor does not reach this process
		}
	}
	return err
}
