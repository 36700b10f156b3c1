//go:build unix

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
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

// Start starts the command. shared.ErrNotFound and shared.ErrNotExecutable are about the command;
// every other error is about the sandbox. If the command was no longer wanted, the error says whether it may
// have run. Do not call Wait after an error.
func (c *Cmd) Start() (err error) {
	if c.startCalled.Swap(true) {
		return errors.New("host: already started")
	}
	if err = c.beginInTime(); err != nil {
		c.recordRefusal(err)
		return err
	}
	c.attend()
	c.started.Store(true)
	c.files.Copy()
	return nil
}

// attend begins to watch a command that has started.
func (c *Cmd) attend() {
	c.events = make(chan struct{})
	c.overdue = make(chan struct{})
	c.ended = make(chan struct{})
	go c.watchEvents()
	go c.supervise()
}

// beginInTime runs begin while the command is wanted: until its context ends, its time limit
// passes, or the Host closes. Then it stops waiting for an engine, a lock or a file system, and
// undoes what begin still does.
func (c *Cmd) beginInTime() error {
	if c.host == nil {
		c.files.CloseChild()
		c.files.Close()
		return errNotMade
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.host.life, func() { cancel(ErrClosed) })()
	if limit := c.timeLimit(); limit > 0 {
		c.deadline = time.Now().Add(limit)
		defer time.AfterFunc(limit, func() { cancel(ErrTimedOut) }).Stop()
	}
	ctx = sandbox.WithStage(ctx, &c.stage)
	patient, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(unwindTime, giveUp) })()
	c.patient = patient
	closePipes := c.files.Closer()
	var err error
	var panicked any
	returned := false // not if one of the caller's functions, such as Approver, panics or ends its goroutine
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		defer func() {
			if panicked = recover(); err != nil || !returned {
				c.files.Close()
			}
			c.files.CloseChild()
		}()
		if err = ctx.Err(); err == nil {
			if err = c.begin(ctx); err != nil {
				err = cmp.Or(c.checkCaller(), err) // a variable may be the cause of the first error
			}
		}
		// Whoever goes on decides again, but a logged decision has its end.
		elsewhere := c.Caller != nil && !c.announced() && (errors.Is(err, facts.ErrOtherCaller) || errors.Is(err, policy.ErrAsks) || errors.Is(err, session.ErrNoSession))
		if err != nil && !elsewhere {
			err = c.unstarted(ctx, err)
			c.logRefusal(err)
		}
		returned = true
	}()
	end := func() error {
		if <-begun; panicked != nil {
			panic(panicked)
		} else if !returned {
			runtime.Goexit()
		}
		return err
	}
	select {
	case <-begun:
		return end() // without an error, supervise watches the process, wanted or not
	case <-patient.Done():
	}
	select {
	case <-begun:
		return end()
	case <-time.After(unwindTime):
	}
	c.mu.Lock() // for announce and change
	c.abandoned.Store(true)
	c.mu.Unlock()
	closePipes() // so that readers and writers of the other ends do not wait
	late := c.unstarted(ctx, ctx.Err())
	go func() {
		if end() == nil {
			c.files.Close()
			c.endErr = late
			c.attend()
			c.kill()
		}
	}()
	return late
}

// unstarted returns err, or the reason why the command is no longer wanted, if that caused err.
func (c *Cmd) unstarted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
		return err
	}
	when := "before the command ran"
	if c.announced() {
		when = "when the command may have run"
	}
	t, _ := c.target()
	stage, _ := c.stage.Load().(string)
	return fmt.Errorf("sandbox %q: %w %s, while %s", t.Name, cmp.Or(c.ctx.Err(), cause), when, cmp.Or(stage, "it was prepared"))
}

// begin decides how the command may run, and starts it.
func (c *Cmd) begin(ctx context.Context) error {
	t, facts, err := c.resolveTarget()
	name := t.Name
	c.change(func(r *Report) { r.Sandbox = name }) // also for a refusal
	if err != nil {
		return err
	}
	if c.NoSandbox {
		return c.beginUnsandboxed(ctx, t, facts, nil)
	}
	// The host does not probe the engine first: starting the command is the probe. If the engine
	// does not work, nothing of the command has run.
	tried := ""
	err = c.host.pool.FirstUsable(ctx, &t, &facts, func(via sandbox.Route, engine string) error {
		tried = engine
		return c.host.pool.Try(c.opening(ctx), t, via, func(opened *sandbox.Handle) error { return c.startIn(ctx, opened, opened.Decision) })
	})
	if facts.State != policy.EngineUnavailable {
		if e, ok := errors.AsType[*sandbox.RuleError](err); ok {
			c.recordDecision(name, tried, policy.Decision{Rule: e.Rule, Reason: err.Error()})
		}
		return err
	}
	return c.beginUnsandboxed(ctx, t, facts, err)
}

// beginUnsandboxed starts a command without its sandbox, if somebody approves. The cause is why it
// has no sandbox, or nil.
func (c *Cmd) beginUnsandboxed(ctx context.Context, t sandbox.Target, facts policy.Facts, cause error) error {
	name, d := t.Name, policy.Decide(facts)
	if d.Outcome == policy.Denied && !d.Ask {
		c.recordDecision(name, facts.Engine, d)
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
			c.recordDecision(name, facts.Engine, d)
			return err
		}
	}
	return c.startIn(ctx, opened, d)
}

// startIn starts the command in an opened sandbox. After an error nothing of the command has run,
// and it may start in another one.
func (c *Cmd) startIn(ctx context.Context, opened *sandbox.Handle, decision policy.Decision) (err error) {
	c.opened = opened
	defer func() {
		if err != nil {
			opened.Release()
			c.opened = nil
		}
	}()
	c.change(func(r *Report) {
		*r = Report{Sandbox: opened.Name, Engine: opened.Engine.Info.Name, EngineProgram: opened.Engine.Program, Decision: decision.Outcome.String(), Rule: string(decision.Rule), Reason: decision.Reason}
		if slices.ContainsFunc(opened.Resolution.Spec.Table, func(e shared.Entry) bool { return e.Access == shared.Overlay && e.Why == view.OriginReview }) {
			r.Review = opened.Definition.Review // there is something to write
		}
		r.Session, r.Overlays = c.host.sessionOf(opened), view.Overlays(&opened.Resolution.Spec)
	})
	command, files, err := c.ready(ctx, opened, decision)
	if err != nil {
		return err
	}
	watching := make(chan []facts.WatchedPath, 1)
	if spec := &opened.Resolution.Spec; !spec.Unconfined && runtime.GOOS == "linux" { // elsewhere rules are by path
		go func() { watching <- opened.Resolution.Watch(opened.Engine.Info.Features) }()
	} else {
		watching <- nil
	}
	c.watchedPaths = watching
	if !c.deadline.IsZero() {
		command.Timeout = max(time.Until(c.deadline), 1)
	}
	sandbox.SetStage(ctx, "engine %q started it", opened.Engine.Info.Name)
	if err = ctx.Err(); err != nil {
		return err
	}
	c.startedProcess, err = opened.Start(c.patient, command, files)
	// The engine may have started the command before it was lost or gave up.
	opened.Ran = err != nil && (c.patient.Err() != nil || errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrBroken)) && !launch.NeverRequested(err)
	switch {
	case err == nil:
		return nil
	case c.patient.Err() != nil:
		opened.Engine.Doubt()
		return ctx.Err()
	case errors.Is(err, shared.ErrNotFound) && c.Script == "":
		c.addDenials(true)
	}
	return sandbox.MarkTransient(err, c.sandboxError(err))
}

// ready makes the engine's inputs, once the command may run. It reports the decision to the caller
// first.
func (c *Cmd) ready(ctx context.Context, opened *sandbox.Handle, decision policy.Decision) (command shared.Command, files shared.Stdio, err error) {
	if decision.Outcome == policy.Denied { // a second check, in case a caller forgot
		return command, files, &DeniedError{Sandbox: opened.Name, Decision: decision}
	}
	if c.TTYOptional && !opened.Engine.Info.Features.Has(shared.FeatureTTY) {
		c.files.Remake()
		c.TTY, c.Stdin = false, nil
	}
	if command, c.origins, err = c.command(ctx, opened, false); err != nil {
		return command, files, &SandboxError{Sandbox: opened.Name, Err: err}
	}
	c.startedCommand = command
	if c.approvedDir != "" && command.Dir != c.approvedDir {
		// Another command has put a symlink into this path since the approval.
		return command, files, &SandboxError{Sandbox: opened.Name, Err: &shared.Error{Kind: shared.ErrDenied,
			Message: fmt.Sprintf("its directory was %s when it was approved, and is %s now", hostpath.Quote(c.approvedDir), hostpath.Quote(command.Dir))}}
	}
	// From here until the command runs, nothing reads the environment.
	if err := c.checkCaller(); err != nil {
		return command, files, err
	}
	if files, err = c.files.Make(c.streams()); err != nil {
		return command, files, err
	}
	return command, files, c.announce(ctx, &announcement{opened.Engine.Info.Name, decision}, command.Dir)
}

// streams are the command's standard input and output in the opened sandbox.
func (c *Cmd) streams() *stdio.Streams {
	spec := &c.opened.Resolution.Spec
	return &stdio.Streams{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, TTY: c.TTY, Size: c.Size, Suspend: c.Suspend,
		Confined: !spec.Unconfined, User: spec.User, MayOutlive: spec.Session.Processes, AfterExit: c.Background}
}

// announce logs a decision and passes it to Decided, before the command runs. It does neither after
// Start has returned without the command.
func (c *Cmd) announce(ctx context.Context, now *announcement, dir string) error {
	c.mu.Lock()
	before, abandoned := c.lastAnnouncement, c.abandoned.Load()
	if !abandoned {
		c.lastAnnouncement = now
	}
	c.mu.Unlock()
	if abandoned {
		return ctx.Err()
	}
	if reflect.DeepEqual(before, now) {
		return nil
	}
	sandbox.SetStage(ctx, "the audit log was written")
	if err := c.logDecision(now.decision, dir); err != nil {
		c.mu.Lock()
		c.lastAnnouncement = before
		c.mu.Unlock()
		return err
	}
	if c.Decided != nil && !c.abandoned.Load() {
		c.Decided(now.decision)
	}
	return nil
}
