//go:build unix

package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/host/denial"
	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/sandbox"
	"github.com/sbxhost/sbxhost/host/stdio"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

func (c *Cmd) watchEvents() {
	defer close(c.events)
	for _, note := range facts.FewNotes(slices.Concat(c.degraded, c.opened.Resolved.Notes, c.notes)) {
		c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
	}
	for _, e := range c.opened.Lost {
		e.Time = time.Now()
		c.event(e)
	}
	for _, e := range c.host.session.RoomEvents(&c.opened.Resolved.Spec) {
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

func (c *Cmd) event(e shared.Event) {
	if c.abandoned.Load() {
		return
	}
	// Whoever shows it need not know that paths in it are a command's word.
	e.Message = hostpath.Line(e.Message)
	c.mu.Lock()
	switch e.Kind {
	case shared.EventDegraded:
		c.report.Degraded = append(c.report.Degraded, e.Message)
	case shared.EventViolation:
		c.report.Denials = append(c.report.Denials, denial.Told(&e))
	case shared.EventDiscarded:
		if n, err := strconv.ParseUint(e.Details["count"], 10, 64); err == nil {
			c.report.Discarded = n
		}
	case shared.EventNetwork:
		d := egress.ParseDecision(e.Details)
		c.report.Network = audit.AddNetworkUse(c.report.Network, audit.NetworkUse{
			Name: hostpath.Line(d.Name), Port: d.Port, Allowed: d.Allowed, Reason: hostpath.Line(d.Reason), Connections: max(d.Connections, 1),
			Sent: d.Sent, Received: d.Received, DurationMS: d.Duration.Milliseconds(),
		})
	case shared.EventTraced:
		if json.Unmarshal([]byte(e.Details["calls"]), &c.calls) != nil {
			c.calls = nil
		}
	case shared.EventLimit:
		c.report.Limits = append(c.report.Limits, LimitReport{e.Details["limit"], e.Details["mechanism"], e.Details["hold"]})
	}
	c.mu.Unlock()
	if c.Events != nil {
		c.Events(e)
	}
}

// run is what a Cmd knows of its command once it starts.
type run struct {
	mu          sync.Mutex // guards the next six
	startCalled bool
	waitCalled  bool
	process     shared.Process // nil until started
	report      Report
	calls       []shared.TracedCall
	ended       chan struct{} // closed when the command has ended and endErr is final

	deadline   time.Time    // when the time limit is over; zero for none
	doing      atomic.Value // string: what Start is at
	abandoned  atomic.Bool  // Start has returned while something of it goes on
	endKnown   atomic.Bool  // the command's end is known, or was given up
	gaveUp     bool         // the engine was, which had not told the end; once ended
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
	late      []string               // and after all events
	notes     []string               // what a person should know of this command's environment
	events    chan struct{}          // closed when the last event was seen
	auditID   string
	logged    bool   // a decision was
	announced string // engine and decision that were logged and told to the caller
	approved  string // the directory that an approval lets it run in; empty where none was needed
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
	case number == syscall.SIGKILL:
		return c.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalPatience)
	defer cancel()
	return process.Signal(ctx, number)
}

// Resize tells the command's terminals their new size.
func (c *Cmd) Resize(size TerminalSize) error {
	if c.runningProcess() == nil {
		return errors.New("host: not started")
	}
	return c.files.Resize(size)
}

func (c *Cmd) runningProcess() shared.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// Report tells how the command was run; it is complete once Wait has returned.
func (c *Cmd) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.report
	r.Degraded, r.Limits, r.Denials = slices.Clip(r.Degraded), slices.Clip(r.Limits), slices.Clip(r.Denials)
	r.Network = slices.Clone(r.Network) // which is added to in its place
	return r
}
