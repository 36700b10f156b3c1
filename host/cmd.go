package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// Cmd is a command to run in a sandbox, used like exec.Cmd: set the fields,
// then call one of Run, Output, CombinedOutput, or Start and Wait. It can be
// used once. Start, Wait, Signal and Resize may be called from different
// goroutines; the fields must not change after Start.
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
	// Dir is the working directory, a path of the host within the workspace,
	// relative to its root. Empty means Options.Dir where that lies in the
	// workspace, and its root otherwise.
	Dir string

	// Stdin, Stdout and Stderr are as in os/exec: nil is the null device, an
	// *os.File is handed over as it is, anything else is copied by way of a
	// pipe. Wait does not wait for a Stdin whose Read blocks. If Stdout and
	// Stderr are the same writer, one goroutine at a time calls Write.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	// TTY gives the command a terminal of its own: what it writes to it goes
	// to Stdout, and what Stdin gives is typed. Stderr must be nil.
	TTY bool
	// Size is the terminal's size at the start; zero means 24 rows, 80 columns.
	Size shared.TerminalSize

	// Timeout ends the command after that long, if its definition does not end
	// it earlier; zero leaves it to the definition.
	Timeout time.Duration

	// Cancel is called when the context given to Command ends. Nil means to
	// kill the command and all it has started. If Cancel returns an error other
	// than os.ErrProcessDone, Wait returns it for a command that succeeded.
	Cancel func() error
	// WaitDelay bounds how long Wait waits, from the end of the context or of
	// the command, for output to be copied. Zero means without bound; an engine
	// that isolates leaves nobody behind who could hold the output open.
	WaitDelay time.Duration

	// Events, if set, is called for each event while the command runs, one
	// call at a time. It must return soon.
	Events func(shared.Event)

	host    *Host
	ctx     context.Context
	sandbox string

	mu      sync.Mutex
	started bool
	waited  bool
	process shared.Process
	opened  *openSandbox
	pty     *pty
	report  Report

	childFiles  []*os.File // closed once the command has started
	parentFiles []*os.File // closed once it has ended
	feeders     []func()   // copy Stdin; nobody waits for them
	copiers     []func() error
	copied      chan error
	copying     int
	events      chan struct{} // closed when the last event was seen
	cancelled   chan error    // the context's watcher's word
	ended       chan struct{} // closed when the command has ended
}

// Report tells how a command was run. It is complete once Wait has returned.
type Report struct {
	Sandbox  string
	Engine   string
	Decision string // "sandboxed" or "unsandboxed"
	Rule     string // which rule decided
	// Result is how the command ended; nil when that is not known.
	Result *shared.Result
	// Degraded are the messages of what was held less well than asked.
	Degraded []string
	// Limits says which mechanism held each limit.
	Limits []LimitReport
}

// LimitReport says how a limit was held.
type LimitReport struct {
	Limit, Mechanism, Hold string
}

// Command returns a Cmd that runs argv in the named sandbox; an empty name is
// the default one. When ctx ends before the command does, the command is
// killed with all it has started.
func (h *Host) Command(ctx context.Context, sandbox string, argv ...string) *Cmd {
	return &Cmd{Args: argv, host: h, ctx: ctx, sandbox: sandbox}
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
	defer c.mu.Unlock()
	if c.started {
		return errors.New("host: command was started already")
	}
	c.started = true
	c.copied = make(chan error, 3)
	defer func() {
		closeAll(c.childFiles)
		c.childFiles = nil
		if err != nil {
			closeAll(c.parentFiles)
			c.pty.close()
		}
	}()
	if c.host == nil {
		return errors.New("host: Cmd was not made by Host.Command")
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	opened, err := c.host.sandbox(c.ctx, c.sandbox)
	if err != nil {
		return err
	}
	c.opened = opened
	c.report = Report{Sandbox: opened.name, Engine: opened.engine.info.Name, Decision: opened.decision.outcome, Rule: opened.decision.rule}
	command, _, err := c.command(opened)
	if err != nil {
		return &SandboxError{Sandbox: opened.name, Err: err}
	}
	stdio, err := c.stdio()
	if err != nil {
		return err
	}
	opened.running.Add(1)
	process, err := opened.Start(c.ctx, command, stdio)
	if err != nil {
		opened.running.Add(-1)
		if ctxErr := c.ctx.Err(); ctxErr != nil && errors.Is(err, ctxErr) {
			return err
		}
		return &SandboxError{Sandbox: opened.name, Err: opened.engine.lost(err)}
	}
	c.process = process
	c.ended = make(chan struct{})
	c.cancelled = make(chan error, 1)
	c.events = make(chan struct{})
	go c.watchEvents()
	go c.watchContext()
	for _, feed := range c.feeders {
		go feed()
	}
	c.copying = len(c.copiers)
	for _, copier := range c.copiers {
		go func() { c.copied <- copier() }()
	}
	return nil
}

// command resolves what is asked into what is enforced.
func (c *Cmd) command(opened *openSandbox) (shared.Command, []EnvVar, error) {
	spec, def := &opened.resolved.spec, opened.def
	dir, err := c.host.workdir(opened, c.Dir)
	if err != nil {
		return shared.Command{}, nil, err
	}
	env, origins, err := computeEnv(c.host.envInput(opened, c.Env))
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
	if spec.Unconfined {
		command.Dir = c.host.hostDir(c.Dir)
	}
	return command, origins, command.Validate()
}

// hostDir is where a command that is not confined runs.
func (h *Host) hostDir(dir string) string {
	switch {
	case dir == "":
		return h.dir
	case filepath.IsAbs(dir):
		return filepath.Clean(dir)
	}
	return filepath.Join(h.Root(), dir)
}

// workdir gives the working directory inside for a host directory. What a
// caller names must lie in a root of the workspace, and adds none.
func (h *Host) workdir(opened *openSandbox, dir string) (string, error) {
	if dir == "" {
		resolved, err := h.resolver.ws.ResolveDir(h.dir)
		if err != nil {
			return opened.resolved.workdir, nil
		}
		dir = resolved
	} else {
		resolved, err := h.resolver.ws.ResolveDir(dir)
		if err != nil {
			return "", attributeError("Dir", err.Error(), "choose a directory of the workspace, or add it to workspace.readable or workspace.writable")
		}
		dir = resolved
	}
	path, ok := insidePath(&opened.resolved.spec, dir)
	if !ok {
		return opened.resolved.workdir, nil
	}
	return path, nil
}

func (h *Host) envInput(opened *openSandbox, command []string) envInput {
	spec := &opened.resolved.spec
	in := envInput{
		caller:      h.caller.environ,
		passthrough: opened.def.EnvPassthrough,
		workspace:   h.options.Workspace.Env,
		definition:  opened.def.Env,
		command:     command,
		usablePath:  func(dir string) bool { return !writableInside(spec, filepath.Clean(dir)) },
		usableTemp: func(dir string) bool {
			_, visible := insidePath(spec, filepath.Clean(dir))
			return visible || filepath.Clean(dir) == "/tmp"
		},
	}
	if spec.Unconfined {
		in.usablePath = func(dir string) bool { return !inside(h.Root(), filepath.Clean(dir)) }
		in.usableTemp = nil
	}
	if o := h.resolver.owner; o != nil {
		in.user = map[string]string{"HOME": o.home, "USER": o.name, "LOGNAME": o.name}
	}
	return in
}

// Wait waits for the command to end and for its output to be copied. See Run
// for its error.
func (c *Cmd) Wait() error {
	c.mu.Lock()
	switch {
	case c.process == nil:
		c.mu.Unlock()
		return errors.New("host: command was not started")
	case c.waited:
		c.mu.Unlock()
		return errors.New("host: Wait was called already")
	}
	c.waited = true
	c.mu.Unlock()

	result, err := c.process.Wait(context.Background())
	close(c.ended)
	c.opened.running.Add(-1)
	<-c.events
	cancelErr := <-c.cancelled

	if err != nil {
		err = &SandboxError{Sandbox: c.opened.name, Err: c.opened.engine.lost(err)}
	} else {
		c.report.Result = &result
		if !result.Status.Success() || result.TimedOut {
			err = &ExitError{ExitStatus: result.Status, TimedOut: result.TimedOut}
		}
	}
	if err == nil {
		err = cancelErr
	}
	if copyErr := c.waitCopied(); err == nil {
		err = copyErr
	}
	closeAll(c.parentFiles)
	c.pty.close()
	return err
}

// watchContext cancels the command when its context ends first.
func (c *Cmd) watchContext() {
	select {
	case <-c.ended:
		c.cancelled <- nil
		return
	case <-c.ctx.Done():
	}
	cancel := c.Cancel
	if cancel == nil {
		cancel = func() error { return c.process.Signal(context.Background(), killSignal) }
	}
	err := cancel()
	switch {
	case err == nil:
		err = c.ctx.Err()
	case errors.Is(err, os.ErrProcessDone):
		err = nil
	}
	if c.WaitDelay > 0 {
		// A Cancel that was only a request gets this long.
		timer := time.NewTimer(c.WaitDelay)
		defer timer.Stop()
		select {
		case <-c.ended:
		case <-timer.C:
			if killErr := c.process.Signal(context.Background(), killSignal); killErr != nil && !errors.Is(killErr, os.ErrProcessDone) && err == nil {
				err = killErr
			}
		}
	}
	c.cancelled <- err
}

func (c *Cmd) watchEvents() {
	defer close(c.events)
	for e := range c.process.Events() {
		switch e.Kind {
		case shared.EventDegraded:
			c.report.Degraded = append(c.report.Degraded, e.Message)
		case shared.EventLimit:
			c.report.Limits = append(c.report.Limits, LimitReport{e.Details["limit"], e.Details["mechanism"], e.Details["hold"]})
		}
		if c.Events != nil {
			c.Events(e)
		}
	}
}

// Report tells how the command was run; it is complete once Wait has returned,
// and must not be called between Start and Wait's return.
func (c *Cmd) Report() Report { return c.report }

// Signal sends a signal to the command's process group. SIGKILL ends all that
// the command has started. After the end it returns os.ErrProcessDone.
func (c *Cmd) Signal(sig os.Signal) error {
	number, ok := sig.(shared.Signal)
	if !ok {
		return fmt.Errorf("host: %v is not a signal of this system", sig)
	}
	process := c.runningProcess()
	if process == nil {
		return errors.New("host: command was not started")
	}
	return process.Signal(context.Background(), number)
}

// Resize tells the command's terminal its new size.
func (c *Cmd) Resize(size shared.TerminalSize) error {
	process := c.runningProcess()
	switch {
	case process == nil:
		return errors.New("host: command was not started")
	case c.pty == nil:
		return errors.New("host: command has no terminal; set TTY")
	}
	return c.pty.resize(size)
}

func (c *Cmd) runningProcess() shared.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// Output runs the command and returns what it wrote to its standard output. An
// *ExitError then has what it wrote to its standard error, if Stderr was nil.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("host: Stdout is set already")
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *middle
	if c.Stderr == nil && !c.TTY {
		stderr = &middle{limit: 32 << 10}
		c.Stderr = stderr
	}
	err := c.Run()
	if exit, ok := errors.AsType[*ExitError](err); ok && stderr != nil {
		exit.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard
// error as they came.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("host: Stdout or Stderr is set already")
	}
	var out bytes.Buffer
	c.Stdout = &out
	if !c.TTY {
		c.Stderr = &out
	}
	err := c.Run()
	return out.Bytes(), err
}
