//go:build unix

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/stdio"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

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
		c.refused(err)
		return err
	}
	c.events = make(chan struct{})
	c.overdue = make(chan struct{})
	c.mu.Lock()
	c.process = c.starting
	c.ended = make(chan struct{})
	c.mu.Unlock()
	go c.watchEvents()
	go c.supervise()
	c.files.Copy()
	return nil
}

// beginInTime is begin for as long as the command is wanted: until its context ends,
// its time is over, or the Host is closed. Whatever begin waits for then - an engine, a
// lock, a file system that does not answer - is no longer waited for, and what it
// has got in the end is given up.
func (c *Cmd) beginInTime() error {
	if c.host == nil {
		c.files.CloseChild()
		c.files.Close()
		return errors.New("host: Cmd was not made by Host.Command")
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.host.life, func() { cancel(ErrClosed) })()
	if limit := c.timeLimit(); limit > 0 {
		c.deadline = time.Now().Add(limit)
		defer time.AfterFunc(limit, func() { cancel(ErrTimedOut) }).Stop()
	}
	ctx = sandbox.WithStage(ctx, &c.doing)
	closePipes := c.files.Closer()
	begun := make(chan beginning, 1)
	go func() {
		b := beginning{exited: true}
		defer func() {
			if b.exited {
				b.panicked = recover()
				b.exited = b.panicked == nil
			}
			if b.failed() {
				c.files.Close()
			}
			c.files.CloseChild()
			begun <- b
		}()
		if b.err = ctx.Err(); b.err == nil {
			b.err = c.begin(ctx)
			if other := c.checkCaller(); b.err != nil && other != nil {
				b.err = other // what went wrong may be the other's
			}
		}
		if b.err != nil && !errors.Is(b.err, facts.ErrOtherCaller) && !errors.Is(b.err, policy.ErrAsks) && !errors.Is(b.err, session.ErrNoSession) {
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
	select {
	case b := <-begun:
		return b.end() // without an error, supervise sees to what runs
	case <-time.After(unwindTime):
	}
	c.abandoned.Store(true)
	closePipes() // who reads or writes the other ends is not to wait for the rest
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

// unstarted is err, or why the command is not wanted any more, where that is what
// err comes of.
func (c *Cmd) unstarted(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil, !errors.Is(err, ctx.Err()) && !errors.Is(err, cause):
		return err
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case cause == ErrTimedOut:
		t, _ := c.target()
		doing, _ := c.doing.Load().(string)
		return fmt.Errorf("sandbox %q: %w before the command ran, while %s", t.Name, ErrTimedOut, cmp.Or(doing, "it was prepared"))
	default:
		return cause
	}
}

// undo ends a command that was started when nobody wanted it any more.
func (c *Cmd) undo() {
	c.files.Close()
	c.opened.Ran = true
	defer c.opened.Release()
	ctx, cancel := context.WithTimeout(context.Background(), launch.Patience)
	defer cancel()
	c.starting.Signal(ctx, syscall.SIGKILL)
	if _, err := c.starting.Wait(ctx); ctx.Err() != nil {
		c.opened.Engine.Kill()
	} else if err != nil {
		c.opened.Engine.Lost(err)
	}
}

// begin decides how the command may run, and starts it.
func (c *Cmd) begin(ctx context.Context) error {
	t, facts, err := c.resolveTarget()
	name := t.Name
	c.mu.Lock()
	c.report.Sandbox = name // of a refusal, too
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if c.NoSandbox {
		return c.beginUnsandboxed(ctx, t, facts, nil)
	}
	// The engine is not asked first whether it works: the command itself is the trial,
	// and nothing of it has run where the engine does not.
	tried := ""
	err = c.host.pool.FirstUsable(ctx, &t, &facts, func(via sandbox.Route, engine string) error {
		tried = engine
		return c.host.pool.Try(c.opening(ctx), t, via, func(opened *sandbox.Open) error { return c.startIn(ctx, opened, opened.Decision) })
	})
	if facts.State != policy.EngineUnavailable {
		if e, ok := errors.AsType[*sandbox.RuleError](err); ok {
			c.decided(name, tried, policy.Decision{Rule: e.Rule, Reason: err.Error()})
		}
		return err
	}
	return c.beginUnsandboxed(ctx, t, facts, err)
}

// beginUnsandboxed starts a command without its sandbox, if that is approved.
// The cause is why it cannot have one, or nil.
func (c *Cmd) beginUnsandboxed(ctx context.Context, t sandbox.Target, facts policy.Facts, cause error) error {
	name, d := t.Name, policy.Decide(facts)
	if d.Outcome == policy.Denied && !d.Ask {
		c.decided(name, facts.Engine, d)
		if d.Rule == policy.RuleFallbackDeny && cause != nil {
			return cause
		}
		return &DeniedError{Sandbox: name, Decision: d, Err: cause}
	}
	opened, err := c.host.pool.Unconfined(c.opening(ctx), t, cause)
	if err != nil {
		return err
	}
	if d.Ask {
		if c.Caller != nil {
			opened.Release()
			return policy.ErrAsks
		}
		if d, err = c.ask(ctx, opened, facts); err != nil {
			opened.Release()
			c.decided(name, facts.Engine, d)
			return err
		}
	}
	return c.startIn(ctx, opened, d)
}

// startIn starts the command in an opened sandbox, as was decided. After an
// error nothing of the command has run, and it may be started in another one.
func (c *Cmd) startIn(ctx context.Context, opened *sandbox.Open, decision policy.Decision) (err error) {
	c.opened = opened
	defer func() {
		if err != nil {
			opened.Release()
			c.opened = nil
		}
	}()
	c.mu.Lock()
	c.report = Report{Sandbox: opened.Name, Engine: opened.Engine.Info.Name, EngineProgram: opened.Engine.Program, Decision: decision.Outcome.String(), Rule: string(decision.Rule), Reason: decision.Reason}
	c.report.Review = opened.Definition.Review
	c.report.Session, c.report.Overlays = c.host.sessionOf(opened), view.Overlays(&opened.Resolved.Spec)
	c.mu.Unlock()
	command, files, err := c.ready(ctx, opened, decision)
	if err != nil {
		return err
	}
	if err := opened.Claim(); err != nil {
		return &SandboxError{Sandbox: opened.Name, Err: err}
	}
	watching := make(chan []facts.Watched, 1)
	if spec := &opened.Resolved.Spec; !spec.Unconfined && runtime.GOOS == "linux" { // elsewhere rules go by path
		go func() { watching <- opened.Resolved.Watch(opened.Engine.Info.Features) }()
	} else {
		watching <- nil
	}
	c.watching = watching
	if !c.deadline.IsZero() {
		command.Timeout = max(time.Until(c.deadline), 1)
	}
	sandbox.SetStage(ctx, "engine %q started it", opened.Engine.Info.Name)
	c.starting, err = opened.Start(ctx, command, files)
	// The engine may have started it, and have been lost or given up before it said so.
	opened.Ran = err != nil && (ctx.Err() != nil || errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrBroken)) && !launch.NeverRequested(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		opened.Engine.Doubt()
		return ctx.Err()
	case errors.Is(err, shared.ErrNotFound) && c.Script == "":
		c.explain(true)
	}
	return sandbox.MayPass(err, c.sandboxError(err))
}

// ready makes what the engine is given of a command, once the command may run. Its caller is
// told that before.
func (c *Cmd) ready(ctx context.Context, opened *sandbox.Open, decision policy.Decision) (command shared.Command, files shared.Stdio, err error) {
	if decision.Outcome == policy.Denied { // the last line of defence
		return command, files, &DeniedError{Sandbox: opened.Name, Decision: decision}
	}
	if c.TTYOptional && !opened.Engine.Info.Features.Has(shared.FeatureTTY) {
		c.withoutTTY()
	}
	if command, c.origins, err = c.command(ctx, opened, false); err != nil {
		return command, files, &SandboxError{Sandbox: opened.Name, Err: err}
	}
	c.started = command
	if c.approved != "" && command.Dir != c.approved {
		// A command that runs meanwhile has put a symlink on the way to it.
		return command, files, &SandboxError{Sandbox: opened.Name, Err: &shared.Error{Kind: shared.ErrDenied,
			Message: fmt.Sprintf("its directory was %s when it was approved, and is %s now", hostpath.Quote(c.approved), hostpath.Quote(command.Dir))}}
	}
	// Nothing is read of it after this, until the command runs.
	if err := c.checkCaller(); err != nil {
		return command, files, err
	}
	if files, err = c.files.Make(c.streams()); err != nil {
		return command, files, err
	}
	if now := (&announcement{opened.Engine.Info.Name, decision}); !reflect.DeepEqual(c.announced, now) {
		sandbox.SetStage(ctx, "the audit log was written")
		if err := c.logDecision(decision, command.Dir); err != nil {
			return command, files, err
		}
		if c.Decided != nil && !c.abandoned.Load() {
			c.Decided(decision)
		}
		c.announced = now
	}
	return command, files, nil
}

// streams are the command's standard input and output in the sandbox that was opened.
func (c *Cmd) streams() *stdio.Streams {
	spec := &c.opened.Resolved.Spec
	return &stdio.Streams{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, TTY: c.TTY, Size: c.Size, Suspend: c.Suspend,
		Confined: !spec.Unconfined, User: spec.User, MayOutlive: spec.Session.Processes, AfterExit: c.Background}
}

// withoutTTY makes c one that has no terminal to be typed to.
func (c *Cmd) withoutTTY() {
	c.files.Remake()
	c.TTY, c.Stdin = false, nil
}
