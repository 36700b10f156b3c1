//go:build unix

package host

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

func (c *Cmd) watchEvents() {
	defer close(c.events)
	for _, note := range fewNotes(slices.Concat(c.degraded, c.opened.resolved.Notes, c.notes)) {
		c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
	}
	for _, e := range c.opened.lost {
		e.Time = time.Now()
		c.event(e)
	}
	for _, e := range c.host.session.RoomEvents(&c.opened.resolved.Spec) {
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
		c.report.Denials = append(c.report.Denials, deniedBy(&e))
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
	case shared.EventLimit:
		c.report.Limits = append(c.report.Limits, LimitReport{e.Details["limit"], e.Details["mechanism"], e.Details["hold"]})
	}
	c.mu.Unlock()
	if c.Events != nil {
		c.Events(e)
	}
}
