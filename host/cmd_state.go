//go:build unix

package host

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/stdio"
	"github.com/sbxhost/sbxhost/shared"
)

// run is the state of a Cmd after Start.
type run struct {
	startCalled, started, waitCalled atomic.Bool // started: Start has returned nil

	mu     sync.Mutex // guards the next three fields
	report Report
	end    End
	calls  []shared.TracedCall
	ended  chan struct{} // closed when the command has ended and endErr is final

	deadline   time.Time       // the end of the time limit; zero for none
	patient    context.Context // of the engine's start: it ends when nobody waits for that any more
	stage      atomic.Value    // string: the step that Start is in
	abandoned  atomic.Bool     // Start has returned while begin still runs
	endKnown   atomic.Bool     // the end is known, or was given up
	gaveUp     bool            // nobody reported the end; valid after ended
	killOnce   sync.Once
	giveUpOnce sync.Once
	overdue    chan struct{} // closed when Wait must return

	opened *sandbox.Handle
	endErr error

	files            stdio.Files
	startedProcess   shared.Process             // result of startIn
	startedCommand   shared.Command             // the command that startIn started
	origins          []EnvVar                   // of its environment
	watchedPaths     <-chan []facts.WatchedPath // the hidden and protected paths
	earlyNotes       []string                   // notes to report before the events
	lateEvents       []shared.Event             // what was found after the end; Wait delivers them
	environmentNotes []string                   // what a person should know of the environment
	events           chan struct{}              // closed after the last event
	auditID          string
	lastAnnouncement *announcement // the last decision that was logged and reported; nil before; guarded by mu
	approvedDir      string        // the directory that the approval is for; empty without one
}

type announcement struct {
	engine   string
	decision policy.Decision
}

// announced reports whether the command was about to run when something failed.
func (c *Cmd) announced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastAnnouncement != nil && c.report.Decision != policy.Denied.String()
}

// Report returns how the command ran, or why not. It is complete after Wait, or after an error of
// Start.
func (c *Cmd) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.report
	r.End = c.end
	if c.host != nil {
		r.Sandbox, r.Session.Name = cmp.Or(r.Sandbox, c.sandbox), c.host.session.Name()
	}
	return complete(r)
}

// change changes the report, unless Start has returned without the command.
func (c *Cmd) change(change func(*Report)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.abandoned.Load() {
		change(&c.report)
	}
}

// recordRefusal records why the command does not run.
func (c *Cmd) recordRefusal(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = endOf(nil, err)
	if c.lastAnnouncement == nil { // a decision counts once it was reported, as in the audit log
		c.report.Decision, c.report.Rule, c.report.Reason = c.denial(err)
	}
}

// denial is the decision about a command that does not run because of err. Its caller holds mu.
func (c *Cmd) denial(err error) (decision, rule, reason string) {
	denied := policy.Denied.String()
	if c.report.Decision != denied {
		return denied, string(policy.RuleNotStarted), err.Error()
	}
	return denied, c.report.Rule, c.report.Reason
}

// unwindTime is how long Start waits for an overdue begin to undo its work, before it returns
// without it.
const unwindTime = 250 * time.Millisecond
