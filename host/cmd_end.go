//go:build unix

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/denial"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/shared"
)

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
	delay := c.WaitDelay
	if c.gaveUp && (delay <= 0 || delay > unwindTime) {
		delay = unwindTime // whoever holds the output open is not known to end
	}
	stdioErr := c.files.End(delay, c.events)
	select {
	case <-c.events: // nobody else calls Events
		for _, note := range c.lateNotes {
			c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
		}
	default:
	}
	_, failed := errors.AsType[*ExitError](c.endErr)
	refused := func(u audit.NetworkUse) bool { return !u.Allowed }
	if failed || c.endErr == nil && (c.Trace || denial.LeavesFiles(c.files.StderrExcerpt()) || slices.ContainsFunc(c.Report().Network, refused)) {
		c.explain(false)
	}
	// As in os/exec, the command's own end comes first: what went wrong with
	// its stdio may be no more than a consequence.
	err := cmp.Or(c.endErr, stdioErr)
	c.mu.Lock()
	c.end = endOf(c.report.Result, err)
	c.mu.Unlock()
	return err
}

// supervise waits for the command's end, and cancels it when its context ends
// first. It ends at the latest when giveUp was called.
func (c *Cmd) supervise() {
	defer close(c.ended)
	defer c.opened.Release()
	if !c.deadline.IsZero() {
		late := time.Until(c.deadline) + c.grace() + launch.Patience
		defer time.AfterFunc(late, c.giveUp).Stop()
	}
	type end struct {
		shared.Result
		err error
	}
	c.opened.Ran = true
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
			case <-time.After(launch.LostPatience):
				last.err = &shared.Error{Kind: shared.ErrBroken, Message: "the engine does not tell how the command ended"}
			}
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
	c.gaveUp = last.err != nil
	c.endKnown.Store(true)
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

// grace is how long the command has from the end of its time to its own end.
func (c *Cmd) grace() time.Duration {
	return cmp.Or(c.opened.Definition.Limits.Grace, DefaultGrace)
}

// overtime says of a sandbox that broke when the command's time was over that it was.
func (c *Cmd) overtime(err error) error {
	if c.deadline.IsZero() || time.Now().Before(c.deadline) {
		return err
	}
	return fmt.Errorf("%w, and the sandbox did not end the command as it should: %w", ErrTimedOut, err)
}

// sandboxError says of which sandbox err is, and why where the cause is known.
func (c *Cmd) sandboxError(err error) error {
	if (errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrClosed)) && c.host.life.Err() != nil {
		// It was the host that has ended the engine.
		return &SandboxError{Sandbox: c.opened.Name, Err: ErrClosed}
	}
	if errors.Is(err, shared.ErrNotFound) || errors.Is(err, shared.ErrNotExecutable) { // no fault of the sandbox's
		return fmt.Errorf("sandbox %q: %w", c.opened.Name, err)
	}
	return &SandboxError{Sandbox: c.opened.Name, Err: c.opened.Engine.Lost(err)}
}

// wrapUp finds out what the command has left, and logs its end; a nil result is that
// of a sandbox that broke. The file system or the log may not answer: it takes no
// longer than the command may.
func (c *Cmd) wrapUp(result *shared.Result) {
	type found struct {
		replaced []string
		made     facts.Changes
		looked   bool
		unlogged string
		unkept   string // why the list lacks it
	}
	done := make(chan found, 1)
	go func() {
		var f found
		if result != nil {
			f.replaced = facts.Replaced(<-c.watching)
		}
		if !c.opened.Resolved.Spec.Unconfined { // whose end may be unknown because it has ended its init
			f.made, f.looked = c.host.machine.Changes(c.opened.Resolved), true
		}
		f.unkept = c.host.keepFindings(&f.made)
		if result != nil && c.opened.Resolved.Spec.Network.Gated() {
			<-c.events // which tell what was reached
		}
		f.unlogged = c.logEnd(result, c.endErr)
		done <- f
	}()
	f := found{unlogged: "what the command has left was not looked at, and its end may not be logged: it would have taken too long"}
	var late <-chan time.Time
	overdue, cancelled := c.overdue, c.ctx.Done()
	for waiting := true; waiting; {
		select {
		case f = <-done:
			waiting = false
			c.opened.Reported = f.looked && f.unkept == ""
		case <-late:
			waiting = false
		case <-overdue:
			overdue, late = nil, time.After(launch.LostPatience)
		case <-cancelled:
			cancelled, late = nil, time.After(launch.LostPatience)
		}
	}
	notes := append(facts.FewNotes(f.replaced), f.made.Notes...)
	if f.unkept != "" {
		notes = append(notes, f.unkept)
	}
	if f.made.Unsigned {
		notes = append(notes, "git: what the command has committed is not signed, as commit.gpgSign in your settings asks: a key for that is not in the sandbox; git commit --amend --no-edit signs the last commit")
	}
	for _, note := range notes {
		c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
	}
	for _, place := range f.made.LostWorktrees {
		c.event(shared.Event{Kind: shared.EventDiscarded, Time: time.Now(), Details: map[string]string{"path": place},
			Message: fmt.Sprintf("the worktree %s was discarded with the command that made it, and is still on its repository's list: git worktree prune takes it off", hostpath.Quote(place))})
	}
	if f.unlogged != "" {
		c.lateNotes = append(c.lateNotes, f.unlogged)
	}
	c.mu.Lock()
	c.report.Result, c.report.Repositories, c.report.Instructions = result, f.made.Repositories, f.made.Instructions
	c.report.LostWorktrees = f.made.LostWorktrees
	c.mu.Unlock()
}
