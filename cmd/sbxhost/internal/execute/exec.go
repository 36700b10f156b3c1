package execute

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/trace"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// Exec runs a command in a sandbox.
func Exec(a *cli.App, fs *flag.FlagSet) func() error {
	e := Execution{App: a}
	e.RegisterExec(fs)
	return func() error {
		if !e.Take(fs, false) {
			return cli.Usage(fs, errors.New("no command: give one after --, or a script with -c"))
		}
		return e.runAnywhere(fs)
	}
}

// runAnywhere runs the command here or in the server that holds its session.
func (e *Execution) runAnywhere(fs *flag.FlagSet) error {
	if kept, err := e.kept(fs); err != nil {
		return err
	} else if kept {
		return e.runKept()
	}
	if e.SessionName() != "" {
		if served, err := e.runServed(); served {
			return err
		}
	}
	return cli.Exit(e.RunAndTell())
}

// Execution is one run of exec or shell.
type Execution struct {
	*cli.App
	flags      setup.Flags
	args       []string
	quiet      bool // says neither notes nor hints
	noNotes    bool // says hints alone
	trace      bool
	suggest    bool // what the trace asks for is printed as a definition has it
	resultPath string
	eventsTo   string

	setup    *setup.Setup
	output   *resultFile // of -result; nil before it is open
	events   *eventLog   // of -events, likewise
	report   host.Report
	shell    bool // what the network was used for is told, and not each denial
	span     *trace.Span
	tty      bool // the command has a terminal that we relay
	terminal *terminal.Outer
	Remote   *Remote // for whom the command runs; nil: for our own caller
}

func (e *Execution) register(fs *flag.FlagSet) {
	e.flags.Register(fs)
	fs.StringVar(&e.resultPath, "result", "", "")
	fs.BoolFunc("quiet", "", func(s string) (err error) {
		if e.noNotes = s == "notes"; e.noNotes {
			return nil
		}
		if e.quiet, err = strconv.ParseBool(s); err != nil {
			err = errors.New("write -quiet or -quiet=notes")
		}
		return err
	})
	fs.BoolVar(&e.flags.Keep, "keep", false, "")
}

// RegisterExec is register with what exec has and shell has not.
func (e *Execution) RegisterExec(fs *flag.FlagSet) {
	e.register(fs)
	fs.BoolVar(&e.trace, "trace", false, "")
	fs.BoolVar(&e.suggest, "suggest", false, "")
	fs.StringVar(&e.eventsTo, "events", "", "")
}

// Take takes the command from the flags that were parsed, if there is one. It is the user's shell if
// shell says so.
func (e *Execution) Take(fs *flag.FlagSet, shell bool) bool {
	if shell {
		e.flags.Tty, e.shell = true, true
		e.args = []string{"sh", "-c", userShell, "sh"}
		return true
	}
	e.trace, e.args = e.trace || e.suggest, fs.Args()
	return fs.NArg() > 0 || e.flags.Scripted
}

// RunAndTell is run, with what -result asks for.
func (e *Execution) RunAndTell() int {
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
	for i := range e.report.Denials {
		e.placeDenial(&e.report.Denials[i])
	}
	defer e.span.End(e.report) // last: whoever waits for the result has it
	if e.Remote.leaves() {
		return status
	}
	if e.setup == nil {
		// There is no configuration that could be read; its error is told.
		if err := e.openPlaces(host.Options{}); err != nil {
			return e.Fail(err)
		}
	}
	ended := &Result{Version: 1, Report: e.report, Session: e.report.Session.Name, Status: status}
	e.events.tell("ended", time.Now(), ended)
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

// openPlaces opens where -result and -events go, for commands that can write as options say.
func (e *Execution) openPlaces(o host.Options) (err error) {
	if e.resultPath != "" && e.output == nil {
		if e.output, err = openPlace("-result", e.resultPath, e.Dir, setup.CommandDirs(e.App, o, e.resultPath)); err != nil {
			return err
		}
		e.output.ready = e.Remote.asClient
	}
	if e.eventsTo != "" && e.events == nil {
		if e.events, err = openEvents(e.eventsTo, e.Dir, setup.CommandDirs(e.App, o, e.eventsTo)); err == nil && e.Remote != nil {
			err = e.Remote.asClient(e.events.file) // no descriptor of the client's comes here
		}
	}
	return err
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
	var cmd *host.Cmd
	relayEnded, started, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	relay := e.newRelay(&cmd, cancel)
	relay.Started, relay.Finished = started, finished
	relay.Cancel = func(sig syscall.Signal) {
		if early == 0 {
			early = sig
		}
		cancel()
	}
	defer e.terminal.Restore() // in a panic, too

	go func() {
		defer close(relayEnded)
		relay.Run(signals) // what it needs of cmd is there once started is closed
	}()
	defer e.Remote.endsWith(cancel)()
	var h *UsedHost
	for {
		h, cmd, err = e.prepareInTime(ctx, begin, func() { terminal.HangUp(signals) })
		// From here on a signal is ours to act on: it must not leave a command,
		// or a terminal in raw mode, behind.
		<-notified
		if err != nil {
			break
		}
		e.Remote.begin()
		if err = cmd.Start(); !errors.Is(err, host.ErrOtherCaller) {
			break
		}
		h.Done() // the Host knows now what it differs in, and is not given again
	}
	if h != nil {
		defer h.Done()
		relay.Grace = cmp.Or(e.setup.Options.Sandboxes[e.setup.Sandbox].Limits.Grace, host.DefaultGrace)
		e.Remote.Settle(err)
		if err == nil {
			e.events.tell("started", time.Now(), struct{}{})
			close(started) // upon which the relay takes the terminal
			err = cmd.Wait()
		}
		e.report = cmd.Report()
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
	e.tellMade()
	if h != nil {
		e.tellEarlier(h.Host, begin)
	}
	e.tellReview()
	err = e.hint(cmd, err)

	if exit, ended := errors.AsType[*host.ExitError](err); ended && early == 0 {
		defer e.tellJob(exit.Signal)
	}
	if _, ended := errors.AsType[*host.ExitError](err); early != 0 && err != nil {
		if !ended {
			e.Say(fmt.Sprintf("ended by %s before the command ran", shared.SignalName(early)))
		}
		return 128 + int(early), err
	} else if err == nil || ended {
		return cli.ExitStatus(err), err
	}
	return e.Fail(setup.Hinted(e.App, e.setup, &e.flags, err)), err
}

// newRelay relays signals to what *cmd is once the command runs. cancel gives up what
// is waited for.
func (e *Execution) newRelay(cmd **host.Cmd, cancel func()) *terminal.Relay {
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
		switch err := (*cmd).Signal(sig); {
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
			(*cmd).Resize(size)
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
		if !(*cmd).TTY { // its engine takes none
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

// tellJob is as of [terminal.Outer.TellJob].
func (e *Execution) tellJob(sig syscall.Signal) {
	e.terminal.TellJob(sig)
	if e.Remote != nil {
		e.Remote.Ended = sig // the terminal is the client's
	}
}

// tellMade tells of what the command made that acts outside of its sandbox.
func (e *Execution) tellMade() {
	if e.quiet {
		return
	}
	acting := 0
	for _, made := range e.report.Repositories {
		if !made.Executes() {
			continue
		}
		if acting++; acting <= maxActing {
			e.Say(made.String())
		}
	}
	if acting > maxActing {
		e.Say(fmt.Sprintf("and %d repositories more in which a git outside of a sandbox would act on what the command made; -result names them", acting-maxActing))
	}
	if made := e.report.Instructions; len(made) > 0 {
		e.Say("the command made or changed what tools outside of a sandbox take for instructions: " + hostpath.QuoteList(made))
	}
}

// tellEarlier tells once, where a person reads it, that earlier commands have made what acts outside.
func (e *Execution) tellEarlier(h *host.Host, begin time.Time) {
	if e.quiet || !cli.IsTerminal(e.Stderr) {
		return
	}
	list, _ := h.Told() // sbxhost doctor says why not
	n := 0
	for _, t := range list {
		if t.At.Before(begin) {
			n++
		}
	}
	if n > 0 {
		e.Say(fmt.Sprintf("of what earlier commands have made, %d paths act outside of sandboxes: see sbxhost doctor, and then sbxhost doctor -seen", n))
	}
}

// maxActing is how many repositories that a command made are told of.
const maxActing = 10

// redrawDelay is how long a command has to see that its terminal's size has changed.
const redrawDelay = 50 * time.Millisecond

// prepareInTime is prepare for as long as it is wanted: until a signal ends us, or
// the time limit. A file that is read may lie on a disk that does not answer.
func (e *Execution) prepareInTime(ctx context.Context, begin time.Time, hungUp func()) (*UsedHost, *host.Cmd, error) {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // a server would have the timer, and what it refers to, until the limit
	limit := func(limit time.Duration) {
		timer := time.AfterFunc(time.Until(begin.Add(limit)), func() {
			cancel(fmt.Errorf("%w before the command ran, while its configuration was read or the session's lock waited for", host.ErrTimedOut))
		})
		context.AfterFunc(reading, func() { timer.Stop() })
	}
	if e.flags.Timeout != nil {
		limit(*e.flags.Timeout)
	}
	type prepared struct {
		own  Execution // e, which is not written while somebody may read it
		host *UsedHost
		cmd  *host.Cmd
		err  error
	}
	ready := make(chan prepared, 1)
	go func() {
		p := prepared{own: *e}
		p.host, p.cmd, p.err = p.own.prepare(ctx, reading, begin, limit, hungUp)
		ready <- p
	}()
	select {
	case p := <-ready:
		e.setup, e.span, e.output, e.events = p.own.setup, p.own.span, p.own.output, p.own.events
		if reading.Err() != nil && p.err != nil {
			p.err = context.Cause(reading)
		}
		return p.host, p.cmd, p.err
	case <-reading.Done():
		go func() {
			if p := <-ready; p.err == nil {
				p.host.Done()
			}
		}()
		return nil, nil, context.Cause(reading)
	}
}

// prepare reads the configuration and makes the command. It has hungUp called
// when the terminal is gone.
func (e *Execution) prepare(ctx, reading context.Context, begin time.Time, limit func(time.Duration), hungUp func()) (*UsedHost, *host.Cmd, error) {
	s, err := setup.Load(reading, e.App, e.flags.Config)
	if err != nil {
		return nil, nil, err
	}
	e.setup = s
	if err := e.openPlaces(s.Options); err != nil {
		return nil, nil, err
	}
	if err := setup.Choose(reading, e.App, s, &e.flags); err != nil {
		return nil, nil, err
	}
	timeout := s.Options.Sandboxes[s.Sandbox].Limits.Timeout
	if timeout > 0 && e.flags.Timeout == nil {
		limit(timeout)
	}
	e.span = trace.Start(e.App, s.Sandbox, s.Options.Sandboxes[s.Sandbox].Engine, begin)
	h, err := e.Remote.host(reading, e.App, s)
	if err != nil {
		return nil, nil, err
	}
	cmd := setup.NewCmd(ctx, e.App, h.Host, s, &e.flags, e.args)
	cmd.Trace, cmd.Caller = e.trace, e.Remote.caller(e.App)
	if timeout > 0 {
		cmd.Timeout = max(timeout-time.Since(begin), 1)
	}
	e.span.Pass(cmd)
	if e.Remote != nil && e.Remote.AdaptTo != nil {
		if err := e.Remote.AdaptTo(e.App, h.Host, cmd); err != nil {
			h.Done()
			return nil, nil, err
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Remote.errors(e.Stderr)
	cmd.Decided = func(d policy.Decision) {
		report := cmd.Report()
		e.tellUnsandboxed(d, report.Engine)
		e.events.decided(report)
	}
	if e.tty {
		cmd.TTY, cmd.TTYOptional = true, !e.flags.Tty
		cmd.Suspend, cmd.Size = terminal.SuspendJob, e.size()
		if e.Remote != nil {
			cmd.Suspend = e.Remote.suspend
		}
		if e.flags.Tty || cli.IsTerminal(e.Stderr) {
			cmd.Stderr = nil
		}
		switch {
		case e.terminal != nil:
			cmd.Stdin = &terminal.Watched{From: e.terminal, Ended: hungUp}
		case e.Remote != nil && e.Remote.Typed: // a ^D would have a shell say "exit" where its client is gone
			cmd.Stdin = &terminal.Watched{From: e.Stdin, Ended: hungUp}
		default:
			cmd.Stdin = &terminal.Typed{From: e.Stdin}
		}
	}
	if !e.quiet && !e.noNotes || e.events != nil {
		cmd.Events = e.event
	}
	return h, cmd, nil
}

func (e *Execution) size() host.TerminalSize {
	return terminal.Size(e.Stdin, e.Stdout, e.Stderr)
}

// event tells what a person should know while the command runs.
func (e *Execution) event(ev shared.Event) {
	e.events.event(ev)
	if e.quiet || e.noNotes {
		return
	}
	switch ev.Kind {
	case shared.EventDegraded:
		// What an engine or this machine lacks is the same for each command. What has happened is not.
		lacks := ev.Details["feature"] != "" || ev.Details["mechanism"] == "landlock" || ev.Details["mechanism"] == "session"
		if !lacks || e.firstToday(ev.Message) {
			e.note("degraded: " + ev.Message)
		}
	case shared.EventDiscarded:
		if n := ev.Details["processes"]; n == "1" {
			ev.Message += "; -keep keeps it"
		} else if n != "" {
			ev.Message += "; -keep keeps them"
		}
		e.note(ev.Message)
	case shared.EventLimit:
		if ev.Details["hold"] != "held" && e.firstToday(ev.Message) {
			e.note("degraded: " + ev.Message)
		}
	case shared.EventProgress:
		if cli.IsTerminal(e.Stderr) { // a log has no use for it
			e.note(ev.Message)
		}
	}
}

// firstToday reports whether this was not said in the last day of this sandbox.
func (e *Execution) firstToday(message string) bool {
	store := e.setup.Options.Approvals.Store
	if store == nil {
		return true
	}
	first, err := store.FirstToday(context.Background(), fmt.Sprintf("%s\x00%s\x00%s", e.setup.File.Path(), e.setup.Sandbox, message))
	return first || err != nil
}

// tellUnsandboxed says that a command runs without the sandbox that its
// definition would give it.
func (e *Execution) tellUnsandboxed(d policy.Decision, engine string) {
	// An engine of others', which is named, may hold some of what a sandbox does.
	if d.Outcome == policy.Unsandboxed && (d.Rule != policy.RuleEngineNamed || engine == "noop") {
		e.Say(fmt.Sprintf("running WITHOUT a sandbox (%s): %s", d.Rule, cli.OneLine(d.Reason)))
	}
}

// note is say for one line at a moment at which the terminal may be raw.
func (e *Execution) note(message string) {
	message = strings.ReplaceAll(message, "\n", " ")
	if !e.terminal.IsRaw() {
		e.Say(message)
		return
	}
	fmt.Fprintf(e.Stderr, "\rsbxhost: %s\r\n", cli.Printable(message))
}

// tellReview says where what the command wrote to the workspace is.
func (e *Execution) tellReview() {
	if name := e.report.Review; name != "" && !e.quiet && e.report.Result != nil {
		e.Say(fmt.Sprintf("what it wrote to the workspace is in review %s: sbxhost review show -patch %s", name, name))
	}
}
