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

// Wait waits for the command's end and the copies of its output. Its errors are those of Run. It
// also closes the pipes that the Pipe methods returned.
func (c *Cmd) Wait() error {
	switch {
	case !c.started.Load():
		return errors.New("host: not started")
	case c.waitCalled.Swap(true):
		return errors.New("host: Wait was already called")
	}

	<-c.ended
	delay := c.WaitDelay
	if c.gaveUp && (delay <= 0 || delay > unwindTime) {
		delay = unwindTime // a process may hold the output open forever
	}
	stdioErr := c.files.End(delay, c.events)
	events := c.Events
	select {
	case <-c.events: // nobody else calls Events
	default:
		events = nil
	}
	for _, e := range c.lateEvents {
		c.deliver(e, events)
	}
	_, failed := errors.AsType[*ExitError](c.endErr)
	refused := func(u audit.NetworkUse) bool { return !u.Allowed }
	if failed || c.endErr == nil && (c.Trace || denial.LeavesFiles(c.files.StderrExcerpt()) || slices.ContainsFunc(c.Report().Network, refused)) {
		c.addDenials(false)
	}
	// As in os/exec, the command's own end comes first: an error of its stdio may only follow from
	// it.
	err := cmp.Or(c.endErr, stdioErr)
	c.mu.Lock()
	c.end = endOf(c.report.Result, err)
	c.mu.Unlock()
	return err
}

// supervise waits for the command's end, and cancels it when its context ends. It returns at the
// latest after giveUp.
func (c *Cmd) supervise() {
	defer close(c.ended)
	if !c.deadline.IsZero() {
		late := time.Until(c.deadline) + c.startedCommand.Grace + launch.Patience
		defer time.AfterFunc(late, c.giveUp).Stop()
	}
	type end struct {
		shared.Result
		err error
	}
	c.opened.Ran = true
	ends := make(chan end, 1)
	go func() {
		result, err := c.startedProcess.Wait(context.Background())
		ends <- end{result, err}
	}()
	var last end
	var cancelErr error
	cancelled, waiting := c.ctx.Done(), true
	for waiting {
		select {
		case last = <-ends:
			waiting = false
			continue
		default:
		}
		select {
		case last = <-ends:
			waiting = false
		case <-c.overdue:
			waiting = false
			select {
			case last = <-ends: // mostly the engine's end
			case <-time.After(launch.LostPatience):
				last.err = &shared.Error{Kind: shared.ErrBroken, Message: "the engine did not report how the command ended"}
			}
		case <-cancelled:
			cancelled = nil
			cancelErr = c.cancel()
			if c.WaitDelay > 0 {
				// A Cancel that only asks the command to end gets this long.
				timer := time.AfterFunc(c.WaitDelay, func() { c.kill() })
				defer timer.Stop()
			}
		}
	}
	c.gaveUp = last.err != nil
	c.endKnown.Store(true)
	switch {
	case c.abandoned.Load(): // its end is what Start has returned
		last.err = c.endErr
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

// overtime adds ErrTimedOut to the error of a sandbox that broke after the command's time limit.
func (c *Cmd) overtime(err error) error {
	if c.deadline.IsZero() || time.Now().Before(c.deadline) {
		return err
	}
	return fmt.Errorf("%w, and the sandbox did not end the command as it should: %w", ErrTimedOut, err)
}

// sandboxError adds the sandbox's name to err, and the cause if it is known.
func (c *Cmd) sandboxError(err error) error {
	if (errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrClosed)) && c.host.life.Err() != nil {
		// The host itself ended the engine.
		return &SandboxError{Sandbox: c.opened.Name, Err: ErrClosed}
	}
	if errors.Is(err, shared.ErrNotFound) || errors.Is(err, shared.ErrNotExecutable) { // the command's fault, not the sandbox's
		return fmt.Errorf("sandbox %q: %w", c.opened.Name, err)
	}
	return &SandboxError{Sandbox: c.opened.Name, Err: c.opened.Engine.Lost(err)}
}

// wrapUp finds what the command left, and logs its end; a nil result means that the sandbox broke.
// It does not wait longer than the command may take: the file system or the log may hang.
func (c *Cmd) wrapUp(result *shared.Result) {
	type found struct {
		replaced []string
		made     facts.Changes
		looked   bool
		unlogged string
		unkept   string // why the list of findings lacks it
	}
	done := make(chan found, 1)
	go func() {
		var f found
		c.opened.Resolution.WatchedPaths = <-c.watchedPaths
		if result != nil {
			f.replaced = facts.Replaced(c.opened.Resolution.WatchedPaths)
		}
		if !c.opened.Resolution.Spec.Unconfined { // its end may be unknown because the command killed its init
			f.made, f.looked = c.host.machine.Changes(c.opened.Resolution), true
		}
		f.unkept = c.host.keepFindings(&f.made)
		if result != nil && c.opened.Resolution.Spec.Network.Gated() {
			<-c.events // the last events report connections
		}
		f.unlogged = c.logEnd(result, c.endErr)
		c.opened.Reported = f.looked && f.unkept == ""
		c.opened.Release() // not before, or the next command takes this one for one whose host was killed
		done <- f
	}()
	f := found{unlogged: "what the command left is not reported, and its end may not be logged: to find it would have taken too long"}
	var late <-chan time.Time
	overdue, cancelled := c.overdue, c.ctx.Done()
	for waiting := true; waiting; {
		select {
		case f = <-done:
			waiting = false
		case <-late:
			waiting = false
		case <-overdue:
			overdue, late = nil, time.After(launch.LostPatience)
		case <-cancelled:
			cancelled, late = nil, time.After(launch.LostPatience)
		}
	}
	notes := slices.Concat(fewNotes(f.replaced), f.made.Notes, []string{f.unkept, f.unlogged})
	if f.made.Unsigned {
		notes = append(notes, "git: the command's commits are not signed, though your commit.gpgSign asks for it: the sandbox has no signing key; git commit --amend --no-edit signs the last commit")
	}
	for _, note := range notes {
		if note != "" {
			c.lateEvents = append(c.lateEvents, shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
		}
	}
	for _, path := range f.made.LostWorktrees {
		c.lateEvents = append(c.lateEvents, shared.Event{Kind: shared.EventDiscarded, Time: time.Now(), Details: map[string]string{"path": path},
			Message: fmt.Sprintf("the worktree %s does not exist outside of the sandbox, but its repository lists it: git worktree prune removes it from the list", hostpath.Quote(path))})
	}
	c.change(func(r *Report) {
		r.Result, r.Repositories, r.Instructions, r.LostWorktrees = result, f.made.Repositories, f.made.Instructions, f.made.LostWorktrees
	})
}
