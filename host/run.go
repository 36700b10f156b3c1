//go:build unix

package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/stdio"
	"github.com/sbxhost/sbxhost/shared"
)

// run is what a Cmd knows of its command once it starts.
type run struct {
	mu          sync.Mutex // guards the next seven
	startCalled bool
	waitCalled  bool
	process     shared.Process // nil until started
	report      Report
	end         End // apart: begin, when it was abandoned, still writes to report
	calls       []shared.TracedCall
	ended       chan struct{} // closed when the command has ended and endErr is final

	deadline   time.Time    // when the time limit is over; zero for none
	doing      atomic.Value // string: what Start is at
	abandoned  atomic.Bool  // Start has returned while something of it goes on
	endKnown   atomic.Bool  // the command's end is known, or was given up
	gaveUp     bool         // nobody has told how the command ended; once ended
	killOnce   sync.Once
	giveUpOnce sync.Once
	overdue    chan struct{} // closed when nothing is waited for any more

	opened *sandbox.Open
	endErr error

	files     stdio.Files
	starting  shared.Process         // what startIn gave
	started   shared.Command         // which that is
	origins   []EnvVar               // of its environment
	watching  <-chan []facts.Watched // what is hidden and protected from it
	degraded  []string               // what is to be told once events are
	lateNotes []string               // and after all events
	notes     []string               // what a person should know of this command's environment
	events    chan struct{}          // closed when the last event was seen
	auditID   string
	logged    bool          // a decision was
	announced *announcement // the one that was logged and told to the caller last; nil before
	approved  string        // the directory that an approval lets it run in; empty where none was needed
}

// announcement is what a decision is about and what it is.
type announcement struct {
	engine   string
	decision policy.Decision
}

func (c *Cmd) runningProcess() shared.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// Report tells how the command was run, or why not; it is complete once Wait has returned, or
// Start an error.
func (c *Cmd) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.report
	r.End = c.end
	if c.host != nil {
		r.Sandbox, r.Session.Name = cmp.Or(r.Sandbox, c.sandbox), c.host.session.Name()
	}
	r.Review = cmp.Or(r.Review, c.Review)
	return complete(r)
}

// refused takes down why the command does not run.
func (c *Cmd) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = endOf(nil, err)
	unwanted := slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded, ErrTimedOut, ErrClosed}, func(why error) bool { return errors.Is(err, why) })
	// What was decided counts once it was told, as in the audit log. An abandoned begin, of a
	// command that is unwanted, may be about to tell it.
	if denied := policy.Denied.String(); !unwanted && c.announced == nil && c.report.Decision != denied {
		c.report.Decision, c.report.Rule, c.report.Reason = denied, "", err.Error()
	}
}

// unwindTime is how long a start may take to undo what it has done, when its time
// is over, before it is left to do that alone.
const unwindTime = 250 * time.Millisecond
