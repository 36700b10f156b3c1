package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// Cmd is a command to run in a sandbox, used like exec.Cmd: set the fields,
// then call one of Run, Output, CombinedOutput, or Start and Wait. It can be
// used once. Start, Wait, Signal, Resize and Report may be called from different
// goroutines; the fields must not change after Start.
//
// Where it differs from exec.Cmd, on purpose:
//
//   - The caller's environment is not inherited, and Args[0] is looked up
//     inside. Explain tells the environment and the directory; there is no
//     Environ, Path or Err.
//   - There is no Process, ProcessState or SysProcAttr: a number from inside
//     means nothing outside, and what holds a command belongs to its
//     definition. Signal and Report stand in their place. There are no
//     ExtraFiles.
//   - Signal reaches the command's process group, and a kill all that it has
//     started.
//   - Wait does not wait for a Stdin whose Read blocks.
//   - A nil Cancel kills.
type Cmd struct {
	// Args is the command line. Args[0] is looked up in the command's PATH,
	// inside the sandbox.
	Args []string
	// Script is shell text to run instead; Args are then its positional
	// parameters. See shared.Command.
	Script string
	// Env are variables for this command on top of what its definition gives:
	// "name=value", or "name" to pass on the caller's. Unlike in os/exec the
	// caller's environment is not inherited.
	Env []string
	// TraceParent and TraceState are the W3C trace context that the command finds
	// in the variables TRACEPARENT and TRACESTATE, if the first is set. They differ
	// from run to run, so that unlike Env they are no part of what is approved.
	TraceParent, TraceState string
	// Dir is the working directory, a path of the host within the workspace,
	// relative to its root. Empty means Options.Dir where that lies in the
	// workspace, and its root otherwise, with a sandbox and without.
	Dir string

	// Stdin, Stdout and Stderr are as in os/exec: nil is the null device, an
	// *os.File is handed over as it is, anything else is copied by way of a
	// pipe - and so is a regular file as Stdin of a confined command, which
	// could otherwise open it again for writing. If Stdout and Stderr are the same
	// writer, one goroutine at a time calls Write.
	//
	// A terminal is never handed over: who has it open can read what is typed
	// there, and change how it works for everybody. As Stdin it is the null device,
	// unless TTY is set and the caller types for the command; as Stdout or Stderr
	// the command gets a terminal of its own to write to, of the same size.
	//
	// A Read of Stdin that is under way when the command ends may return later
	// than Wait; what it gives is lost. No further one is begun.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	// TTY gives the command a controlling terminal of its own: what it writes to
	// it goes to Stdout, and what Stdin gives is typed. It has its errors there, too,
	// where Stderr is nil.
	TTY bool
	// TTYOptional is for a TTY that nobody has asked for: with an engine that takes
	// none, the command runs without it, and without Stdin. TTY is false then when
	// Start returns.
	TTYOptional bool
	// Size is the terminal's size at the start; zero means 24 rows, 80 columns.
	Size shared.TerminalSize
	// Suspend, if set, is called when the key that stops jobs (^Z) was typed to a
	// TTY, and no shell inside acts on it: of the command itself, whose terminal's
	// session has nobody else in it, the kernel stops nothing. The caller may stop the
	// command by SIGSTOP, and itself.
	Suspend func()

	// Timeout ends the command after that long, if its definition does not end
	// it earlier; zero leaves it to the definition. The time runs from the call of
	// Start: what is done before the command runs counts. Start, and Wait after
	// the definition's grace, return ErrTimedOut within a few seconds of it also
	// where the engine hangs, or another process holds a lock.
	Timeout time.Duration

	// NoSandbox asks to run without the sandbox, which only
	// ApprovalOptions.AllowBypass lets be asked for, and which has to be approved
	// then.
	NoSandbox bool
	// Decided, if set, is called with the decision that lets the command run,
	// before it does. A decision is made anew where the engine turns out not to
	// work on this machine.
	Decided func(policy.Decision)

	// Cancel is called when the context given to Command ends. Nil means to
	// kill the command and all it has started. If Cancel returns an error other
	// than os.ErrProcessDone, Wait returns it for a command that succeeded.
	Cancel func() error
	// WaitDelay bounds two times: from the call of Cancel to the kill of a
	// command that goes on, and from the command's end to that of its output;
	// where the latter is exceeded, Wait returns ErrWaitDelay for a command
	// that succeeded. Zero means without bound; an engine that isolates leaves
	// nobody behind who could hold the output open.
	WaitDelay time.Duration

	// Events, if set, is called for each event while the command runs, and for
	// what its engine tells of a long preparation before, one call at a time. Wait waits for it as it does for Stdout's Write.
	Events func(shared.Event)

	host    *Host
	ctx     context.Context
	sandbox string

	mu          sync.Mutex // guards the next five
	startCalled bool
	waitCalled  bool
	process     shared.Process // nil until started
	report      Report
	ended       chan struct{} // closed when the command has ended and endErr is final

	deadline time.Time     // when the time limit is over; zero for none
	doing    atomic.Value  // string: what Start is at
	left     atomic.Bool   // Start has returned while something of it goes on
	told     atomic.Bool   // the command's end is known, or was given up
	gaveUp   bool          // the engine was, which had not told the end; once ended
	doom     sync.Once     // the command was to be killed
	giving   sync.Once     // giveUp
	overdue  chan struct{} // closed when nothing is waited for any more

	opened *openSandbox
	endErr error

	starting  shared.Process   // what startIn gave
	watching  <-chan []watched // what is hidden and protected from it
	files     shared.Stdio     // for the command
	stdioMade bool
	degraded  []string // what is to be told once events are
	late      []string // and after all events
	auditID   string
	logged    bool   // the decision was
	approved  string // the directory that an approval lets it run in; empty where none was needed
	terminals []*pty // of the command's own; with TTY, the first is what is typed to

	childFiles  []*os.File // closed once the command has started
	parentFiles []*os.File // closed once it has ended
	piped       bool       // one of the Pipe methods was called
	stdin       *feeder    // nil if there is nothing to copy
	copiers     []func() error
	copied      chan error    // one from each copier
	events      chan struct{} // closed when the last event was seen
	notes       []string      // what a person should know of this command's environment
}

// Command returns a Cmd that runs argv in the named sandbox; an empty name is
// the default one. When ctx ends before the command does, the command is
// killed with all it has started.
func (h *Host) Command(ctx context.Context, sandbox string, argv ...string) *Cmd {
	if ctx == nil {
		panic("host: nil Context")
	}
	return &Cmd{Args: argv, host: h, ctx: ctx, sandbox: sandbox}
}

// String gives the command line for people and logs: words that are not plain
// are quoted, so that it is one line whatever they hold. It is not for a shell.
func (c *Cmd) String() string {
	words := c.Args
	if c.Script != "" {
		words = slices.Concat([]string{c.Script}, c.Args)
	}
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if quoted := strconv.Quote(word); strings.Contains(word, " ") || len(quoted) != len(word)+2 || word == "" {
			word = quoted
		}
		b.WriteString(word)
	}
	return b.String()
}

// Run starts the command and waits for its end. The error is nil for exit
// status 0, an *ExitError for any other end of the command, and anything else
// says that the command could not be run or that its sandbox broke.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Start starts the command. An error that is shared.ErrNotFound or
// shared.ErrNotExecutable is about the command; every other one is about the
// sandbox. After an error there is nothing to Wait for.
func (c *Cmd) Start() (err error) {
	c.mu.Lock()
	again := c.startCalled
	c.startCalled = true
	c.mu.Unlock()
	if again {
		return errors.New("host: already started")
	}
	if err = c.beginInTime(); err != nil {
		return err
	}
	c.events = make(chan struct{})
	c.overdue = make(chan struct{})
	c.copied = make(chan error, len(c.copiers))
	c.mu.Lock()
	c.process = c.starting
	c.ended = make(chan struct{})
	c.mu.Unlock()
	go c.watchEvents()
	go c.supervise()
	go c.host.resolver.scanners.memory.Save() // or the next process searches anew
	if c.stdin != nil {
		go c.stdin.feed()
	}
	for _, copier := range c.copiers {
		go func() { c.copied <- copier() }()
	}
	return nil
}

// unwindTime is how long a start may take to undo what it has done, when its time
// is over, before it is left to do that alone.
const unwindTime = 250 * time.Millisecond

// beginInTime is begin for as long as the command is wanted: until its context ends,
// its time is over, or the Host is closed. Whatever begin waits for then - an engine, a
// lock, a file system that does not answer - is no longer waited for, and what it
// has got in the end is given up.
func (c *Cmd) beginInTime() error {
	if c.host == nil {
		closeAll(c.childFiles)
		closeAll(c.parentFiles)
		return errors.New("host: Cmd was not made by Host.Command")
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.host.life, func() { cancel(ErrClosed) })()
	if limit := c.timeLimit(); limit > 0 {
		c.deadline = time.Now().Add(limit)
		defer time.AfterFunc(limit, func() { cancel(ErrTimedOut) }).Stop()
	}
	ctx = withStage(ctx, &c.doing)
	given := slices.Concat(c.childFiles, c.parentFiles)
	begun := make(chan beginning, 1)
	go func() {
		b := beginning{exited: true}
		defer func() {
			if b.exited {
				b.panicked = recover()
				b.exited = b.panicked == nil
			}
			if b.failed() {
				closeAll(c.parentFiles)
				c.closeTerminals()
			}
			closeAll(c.childFiles)
			begun <- b
		}()
		if b.err = ctx.Err(); b.err == nil {
			c.host.lookUpIdentity()
			b.err = c.begin(ctx)
		}
		if b.err != nil {
			b.err = c.unstarted(ctx, b.err)
			c.logRefusal(b.err)
		}
		b.exited = false
	}()
	select {
	case b := <-begun:
		return b.end()
	case <-ctx.Done():
	}
	unwound := time.NewTimer(unwindTime)
	defer unwound.Stop()
	select {
	case b := <-begun:
		return b.end() // without an error, supervise sees to what runs
	case <-unwound.C:
	}
	c.left.Store(true)
	closeAll(given) // who reads or writes the other ends is not to wait for the rest
	go func() {
		if b := <-begun; !b.failed() {
			c.undo()
		} else if b.panicked != nil {
			panic(b.panicked)
		}
	}()
	return c.unstarted(ctx, ctx.Err())
}

// beginning is how begin has ended. What the caller's own functions do, an Approver
// say, happens to the caller of Start.
type beginning struct {
	err      error
	panicked any
	exited   bool // by runtime.Goexit
}

func (b beginning) failed() bool { return b.err != nil || b.panicked != nil || b.exited }

func (b beginning) end() error {
	if b.panicked != nil {
		panic(b.panicked)
	}
	if b.exited {
		runtime.Goexit()
	}
	return b.err
}

// stageKey is the key of what at tells in a context.
type stageKey struct{}

func withStage(ctx context.Context, stage *atomic.Value) context.Context {
	return context.WithValue(ctx, stageKey{}, stage)
}

// at says what the start of a command is at, for the error of one whose time is over.
func at(ctx context.Context, stage string, a ...any) {
	if v, ok := ctx.Value(stageKey{}).(*atomic.Value); ok {
		v.Store(fmt.Sprintf(stage, a...))
	}
}

// timeLimit is how long the command may take from the call of Start; zero is no limit.
func (c *Cmd) timeLimit() time.Duration {
	limit := c.Timeout
	if _, def, err := c.host.definition(c.sandbox); err == nil && def.Limits.Timeout > 0 && (limit <= 0 || def.Limits.Timeout < limit) {
		limit = def.Limits.Timeout
	}
	return limit
}

// grace is how long the command has from the end of its time to its own end.
func (c *Cmd) grace() time.Duration {
	return cmp.Or(c.opened.def.Limits.Grace, DefaultGrace)
}

// unstarted is err, or why the command is not wanted any more, where that is what
// err comes of.
func (c *Cmd) unstarted(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil, !errors.Is(err, ctx.Err()) && !errors.Is(err, cause):
		return err
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case cause == ErrTimedOut:
		name, _, _ := c.host.definition(c.sandbox)
		doing, _ := c.doing.Load().(string)
		return &SandboxError{Sandbox: name, Err: fmt.Errorf("%w before the command ran, while %s", ErrTimedOut, cmp.Or(doing, "it was prepared"))}
	default:
		return cause
	}
}

// undo ends a command that was started when nobody wanted it any more.
func (c *Cmd) undo() {
	closeAll(c.parentFiles)
	c.closeTerminals()
	defer c.opened.release()
	ctx, cancel := context.WithTimeout(context.Background(), enginePatience)
	defer cancel()
	c.starting.Signal(ctx, killSignal)
	if _, err := c.starting.Wait(ctx); ctx.Err() != nil {
		c.opened.engine.kill()
	} else if err != nil {
		c.opened.engine.lost(err)
	}
}

// startIn starts the command in an opened sandbox, as was decided. After an
// error nothing of the command has run, and it may be started in another one.
func (c *Cmd) startIn(ctx context.Context, opened *openSandbox, decision policy.Decision) (err error) {
	c.opened = opened
	defer func() {
		if err != nil {
			opened.release()
			c.opened = nil
		}
	}()
	c.mu.Lock()
	c.report = Report{Sandbox: opened.name, Engine: opened.engine.info.Name, Decision: decision.Outcome.String(), Rule: string(decision.Rule), Reason: decision.Reason}
	c.report.Session, c.report.Overlays = c.host.sessionOf(opened), overlaysOf(&opened.resolved.spec)
	c.mu.Unlock()
	if decision.Outcome == policy.Denied { // the last line of defence
		return &DeniedError{Sandbox: opened.name, Decision: decision}
	}
	if c.TTYOptional && !opened.engine.info.Features.Has(shared.FeatureTTY) {
		c.withoutTTY()
	}
	command, _, err := c.command(ctx, opened, false)
	if err != nil {
		return &SandboxError{Sandbox: opened.name, Err: err}
	}
	if c.approved != "" && command.Dir != c.approved {
		// A command that runs meanwhile has put a symlink on the way to it.
		return &SandboxError{Sandbox: opened.name, Err: &shared.Error{Kind: shared.ErrDenied,
			Message: fmt.Sprintf("its directory was %s when it was approved, and is %s now", hostpath.Quote(c.approved), hostpath.Quote(command.Dir))}}
	}
	if err := c.host.session.checkRoom(ctx, &opened.resolved.spec); err != nil {
		return &SandboxError{Sandbox: opened.name, Err: err}
	}
	if !c.stdioMade {
		if c.files, err = c.stdio(); err != nil {
			return err
		}
		c.stdioMade = true
	}
	at(ctx, "the audit log was written")
	if err := c.logDecision(decision, command.Dir); err != nil {
		return err
	}
	if c.Decided != nil && !c.left.Load() {
		c.Decided(decision)
	}
	watching := make(chan []watched, 1)
	if spec := &opened.resolved.spec; !spec.Unconfined && runtime.GOOS == "linux" { // elsewhere rules go by path
		go func() { watching <- watch(spec, opened.resolved.instead) }()
	} else {
		watching <- nil
	}
	c.watching = watching
	if !c.deadline.IsZero() {
		command.Timeout = max(time.Until(c.deadline), 1)
	}
	at(ctx, "engine %q started it", opened.engine.info.Name)
	c.starting, err = opened.Start(ctx, command, c.files)
	if refused, ok := errors.AsType[*shared.Error](err); ok && c.TTY && c.TTYOptional && refused.Kind == shared.ErrUnsupported && refused.Attribute == "tty" {
		// Stdio is streamed to it. Nothing has run.
		c.withoutTTY()
		if c.files, err = c.stdio(); err != nil {
			return err
		}
		command.TTY, c.stdioMade = false, true
		c.starting, err = opened.Start(ctx, command, c.files)
	}
	if err != nil {
		if ctx.Err() != nil {
			opened.engine.doubt()
			return ctx.Err()
		}
		return c.sandboxError(err)
	}
	return nil
}

// withoutTTY makes c one that has no terminal to be typed to.
func (c *Cmd) withoutTTY() {
	c.closeTerminals()
	c.TTY, c.Stdin, c.stdin, c.terminals, c.copiers, c.stdioMade = false, nil, nil, nil, nil, false
}

// sandboxError says of which sandbox err is, and why where the cause is known.
func (c *Cmd) sandboxError(err error) error {
	if (errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrClosed)) && c.host.isClosed() {
		// It was the host that has ended the engine.
		return &SandboxError{Sandbox: c.opened.name, Err: ErrClosed}
	}
	return &SandboxError{Sandbox: c.opened.name, Err: c.opened.engine.lost(err)}
}

func (h *Host) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// command resolves what is asked into what is enforced. With planning it runs no
// program to find out.
func (c *Cmd) command(ctx context.Context, opened *openSandbox, planning bool) (shared.Command, []EnvVar, error) {
	def := opened.def
	dir, err := c.host.workdir(opened, c.Dir)
	if err != nil {
		return shared.Command{}, nil, err
	}
	in := c.host.envInput(ctx, opened, c.Env)
	in.traceParent, in.traceState = c.TraceParent, c.TraceState
	in.credentials, c.notes = c.host.credentials(ctx, def.Credentials, planning)
	env, origins, err := computeEnv(in)
	if err != nil {
		return shared.Command{}, nil, err
	}
	command := shared.Command{Args: c.Args, Script: c.Script, Env: env, Dir: dir, TTY: c.TTY,
		Timeout: def.Limits.Timeout, Grace: def.Limits.Grace}
	if c.Timeout > 0 && (command.Timeout == 0 || c.Timeout < command.Timeout) {
		command.Timeout = c.Timeout
	}
	if command.Grace == 0 {
		command.Grace = DefaultGrace
	}
	if c.TTY && !opened.engine.info.Features.Has(shared.FeatureTTY) {
		return shared.Command{}, nil, unsupported(opened.engine.info.Name, shared.Requirement{Feature: shared.FeatureTTY, Attribute: "TTY"})
	}
	return command, origins, command.Validate()
}

// hostDir is where on the host a command runs, symlinks resolved. What a caller names
// must lie in a root of the workspace, and adds none.
func (h *Host) hostDir(dir string) (string, error) {
	if dir == "" {
		resolved, err := h.resolver.ws.ResolveDir(h.dir)
		if err != nil {
			return h.resolver.ws.ResolveDir("")
		}
		return resolved, nil
	}
	resolved, err := h.resolver.ws.ResolveDir(dir)
	if err != nil {
		return "", attributeError("Dir", err.Error(), "choose a directory of the workspace, or add it to workspace.readable or workspace.writable")
	}
	return resolved, nil
}

// workdir gives the working directory for a host directory: where it lies inside, or
// itself for a command that is not confined.
func (h *Host) workdir(opened *openSandbox, dir string) (string, error) {
	resolved, err := h.hostDir(dir)
	if err != nil || opened.resolved.spec.Unconfined {
		return resolved, err
	}
	path, ok := insidePath(&opened.resolved.spec, resolved)
	if !ok {
		return opened.resolved.Workdir, nil
	}
	return path, nil
}

func (h *Host) envInput(ctx context.Context, opened *openSandbox, command []string) envInput {
	spec := &opened.resolved.spec
	in := envInput{
		caller:      h.caller.environ,
		toolchains:  opened.resolved.Variables,
		passthrough: opened.def.EnvPassthrough,
		identity:    h.gitEnv(ctx),
		workspace:   h.options.Workspace.Env,
		definition:  opened.def.Env,
		command:     command,
		usablePath:  func(dir string) bool { return usablePath(spec, dir) },
		usableTemp: func(dir string) bool {
			_, visible := insidePath(spec, filepath.Clean(dir))
			return visible || filepath.Clean(dir) == "/tmp"
		},
	}
	if spec.Unconfined {
		in.usablePath = func(dir string) bool {
			way := follow("/", dir)
			planted, _ := h.commandsWrite([]string{filepath.Clean(dir), way.End})
			return way.Err == nil && planted == "" && !creatable(spec, way.End)
		}
		in.usableTemp = nil
	}
	if opened.resolved.Elsewhere && !spec.Unconfined {
		in.settings = gcSettings[:]
	}
	if o := h.resolver.owner; o != nil {
		in.user = map[string]string{"HOME": o.home, "USER": o.name, "LOGNAME": o.name}
	}
	return in
}

// Wait waits for the command to end and for its output to be copied. See Run
// for its error. It also closes what the Pipe methods gave.
func (c *Cmd) Wait() error {
	c.mu.Lock()
	started, again, ended := c.process != nil, c.waitCalled, c.ended
	c.waitCalled = started
	c.mu.Unlock()
	switch {
	case !started:
		return errors.New("host: not started")
	case again:
		return errors.New("host: Wait was already called")
	}

	<-ended
	for _, p := range c.terminals {
		p.ended()
	}
	err := c.endErr
	stdinErr := c.stdin.stop()
	copyErr := c.waitCopied()
	select {
	case <-c.events: // nobody else calls Events
		for _, note := range c.late {
			c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
		}
	default:
	}
	closeAll(c.parentFiles)
	c.closeTerminals()
	// As in os/exec, the command's own end comes first: what went wrong with
	// its stdio may be no more than a consequence.
	return cmp.Or(err, stdinErr, copyErr)
}

// supervise waits for the command's end, and cancels it when its context ends
// first. It ends at the latest when giveUp was called.
func (c *Cmd) supervise() {
	defer close(c.ended)
	defer c.opened.release()
	if !c.deadline.IsZero() {
		late := time.Until(c.deadline) + c.grace() + enginePatience
		defer time.AfterFunc(late, c.giveUp).Stop()
	}
	type end struct {
		shared.Result
		err error
	}
	told := make(chan end, 1)
	go func() {
		result, err := c.process.Wait(context.Background())
		told <- end{result, err}
	}()
	var last end
	var cancelErr error
	cancelled, waiting := c.ctx.Done(), true
	for waiting {
		select {
		case last = <-told:
			waiting = false
			continue
		default:
		}
		select {
		case last = <-told:
			waiting = false
		case <-c.overdue:
			waiting = false
			select {
			case last = <-told: // of the engine's end, mostly
			case <-time.After(lostPatience):
				last.err = &shared.Error{Kind: shared.ErrBroken, Message: "the engine does not tell how the command ended"}
			}
			c.gaveUp = last.err != nil
		case <-cancelled:
			cancelled = nil
			cancelErr = c.cancel()
			if c.WaitDelay > 0 {
				// A Cancel that was only a request gets this long.
				timer := time.AfterFunc(c.WaitDelay, func() { c.kill() })
				defer timer.Stop()
			}
		}
	}
	c.told.Store(true)
	switch {
	case last.err != nil:
		c.endErr = c.overtime(c.sandboxError(last.err))
	case !last.Status.Success() || last.TimedOut:
		c.endErr = &ExitError{ExitStatus: last.Status, TimedOut: last.TimedOut}
	default:
		c.endErr = cancelErr
	}
	if last.err != nil {
		c.wrapUp(nil)
	} else {
		c.wrapUp(&last.Result)
	}
}

// overtime says of a sandbox that broke when the command's time was over that it was.
func (c *Cmd) overtime(err error) error {
	if c.deadline.IsZero() || time.Now().Before(c.deadline) {
		return err
	}
	return fmt.Errorf("%w, and the sandbox did not end the command as it should: %w", ErrTimedOut, err)
}

// wrapUp finds out what the command has left, and logs its end; a nil result is that
// of a sandbox that broke. The file system or the log may not answer: it takes no
// longer than the command may.
func (c *Cmd) wrapUp(result *shared.Result) {
	type found struct {
		replaced []string
		made     made
		unlogged string
	}
	done := make(chan found, 1)
	go func() {
		var f found
		if result == nil {
			f.unlogged = c.logEnd(nil, c.endErr)
		} else {
			f.replaced = replaced(<-c.watching)
			if !c.opened.resolved.spec.Unconfined {
				f.made = c.host.resolver.made(c.opened.resolved)
			}
			f.unlogged = c.logEnd(result, nil)
		}
		done <- f
	}()
	f := found{unlogged: "what the command has left was not looked at, and its end may not be logged: it would have taken too long"}
	var late <-chan time.Time
	overdue, cancelled := c.overdue, c.ctx.Done()
	for waiting := true; waiting; {
		select {
		case f = <-done:
			waiting = false
		case <-late:
			waiting = false
		case <-overdue:
			overdue, late = nil, time.After(lostPatience)
		case <-cancelled:
			cancelled, late = nil, time.After(lostPatience)
		}
	}
	for _, note := range fewNotes(f.replaced) {
		c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
	}
	for _, place := range f.made.lost {
		c.event(shared.Event{Kind: shared.EventDiscarded, Time: time.Now(), Details: map[string]string{"path": place},
			Message: fmt.Sprintf("the worktree %s was discarded with the command that made it, and is still on its repository's list: git worktree prune takes it off", hostpath.Quote(place))})
	}
	if f.unlogged != "" {
		c.late = append(c.late, f.unlogged)
	}
	c.mu.Lock()
	c.report.Result, c.report.Repositories, c.report.Instructions = result, f.made.repositories, f.made.instructions
	c.report.LostWorktrees = f.made.lost
	c.mu.Unlock()
}

// cancel gives the error for a command that succeeds all the same.
func (c *Cmd) cancel() error {
	cancel := c.Cancel
	if cancel == nil {
		cancel = c.kill
	}
	switch err := cancel(); {
	case err == nil:
		return c.ctx.Err()
	case errors.Is(err, os.ErrProcessDone):
		return nil
	default:
		return fmt.Errorf("host: canceling the command: %w", err)
	}
}

// enginePatience is how long an engine may take to end a command that it was to
// kill. It is twice what an engine needs whose launcher or init is stopped, and
// leaves two seconds of the five in which a time limit is held.
const enginePatience = 3 * time.Second

// signalPatience is how long an engine may take to answer that it has sent a
// signal.
const signalPatience = time.Second

// kill ends the command. That must not depend on an engine that hangs.
func (c *Cmd) kill() error {
	c.doom.Do(func() { time.AfterFunc(enginePatience, c.giveUp) })
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	err := c.process.Signal(ctx, killSignal)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // giveUp sees to it
	}
	return err
}

// giveUp ends the wait for the command. An engine that has not told its end by now
// hangs, and is killed: its commands die with it, and the next one gets a new engine.
func (c *Cmd) giveUp() {
	c.giving.Do(func() {
		if !c.told.Load() {
			c.opened.engine.kill()
		}
		close(c.overdue)
	})
}

func (c *Cmd) watchEvents() {
	defer close(c.events)
	for _, note := range fewNotes(slices.Concat(c.degraded, c.opened.resolved.notes, c.notes)) {
		c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
	}
	for _, e := range c.host.session.roomEvents(&c.opened.resolved.spec) {
		c.event(e)
	}
	events := c.process.Events()
	if events == nil {
		return
	}
	for e := range events {
		c.event(e)
	}
}

// maxNotes is how many notes a command is told with. A command can make a hundred
// thousand links of which each is worth one.
const maxNotes = 50

func fewNotes(notes []string) []string {
	if len(notes) <= maxNotes {
		return notes
	}
	return append(slices.Clip(notes[:maxNotes]), fmt.Sprintf("and %d notes more, which explain lists", len(notes)-maxNotes))
}

func (c *Cmd) event(e shared.Event) {
	if c.left.Load() {
		return
	}
	// Whoever shows it need not know that paths in it are a command's word.
	e.Message = hostpath.Line(e.Message)
	c.mu.Lock()
	switch e.Kind {
	case shared.EventDegraded:
		c.report.Degraded = append(c.report.Degraded, e.Message)
	case shared.EventViolation:
		c.report.Violations = append(c.report.Violations, Violation{e.Details["operation"], e.Details["path"], e.Details["attribute"], e.Message})
	case shared.EventDiscarded:
		if n, err := strconv.ParseUint(e.Details["count"], 10, 64); err == nil {
			c.report.Discarded = n
		}
	case shared.EventLimit:
		c.report.Limits = append(c.report.Limits, LimitReport{e.Details["limit"], e.Details["mechanism"], e.Details["hold"]})
	}
	c.mu.Unlock()
	if c.Events != nil {
		c.Events(e)
	}
}

// Report tells how the command was run; it is complete once Wait has returned.
func (c *Cmd) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.report
	r.Degraded, r.Limits, r.Violations = slices.Clip(r.Degraded), slices.Clip(r.Limits), slices.Clip(r.Violations)
	return r
}

// Signal sends a signal to the command's process group. SIGKILL ends all that
// the command has started. After the end it returns os.ErrProcessDone.
func (c *Cmd) Signal(sig os.Signal) error {
	number, ok := sig.(shared.Signal)
	if !ok {
		return fmt.Errorf("host: %v is not a signal of this system", sig)
	}
	process := c.runningProcess()
	switch {
	case process == nil:
		return errors.New("host: not started")
	case number == killSignal:
		return c.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	return process.Signal(ctx, number)
}

// Resize tells the command's terminals their new size.
func (c *Cmd) Resize(size shared.TerminalSize) error {
	process := c.runningProcess()
	switch {
	case process == nil:
		return errors.New("host: not started")
	case len(c.terminals) == 0:
		return errors.New("host: command has no terminal; set TTY")
	}
	var err error
	for _, p := range c.terminals {
		err = cmp.Or(err, p.resize(size))
	}
	return err
}

func (c *Cmd) runningProcess() shared.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}
