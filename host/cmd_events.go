//go:build unix

package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/denial"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/shared"
)

// maxDegraded bounds the notes of one command: a command could cause notes without end.
const maxDegraded = 1000

func (c *Cmd) watchEvents() {
	defer close(c.events)
	for _, note := range fewNotes(slices.Concat(c.earlyNotes, c.opened.Resolution.Notes, c.environmentNotes)) {
		c.event(shared.Event{Kind: shared.EventDegraded, Time: time.Now(), Message: note})
	}
	for _, e := range c.opened.Lost {
		e.Time = time.Now()
		c.event(e)
	}
	for _, e := range session.UnboundedEvents(&c.opened.Resolution.Spec) {
		c.event(e)
	}
	events := c.startedProcess.Events()
	if events == nil {
		return
	}
	for e := range events {
		c.event(e)
	}
}

func (c *Cmd) event(e shared.Event) { c.deliver(e, c.Events) }

// deliver adds an event to the report, and passes it to events, which may be nil.
func (c *Cmd) deliver(e shared.Event, events func(shared.Event)) {
	if c.abandoned.Load() {
		return
	}
	// Paths in the message may come from the command, so it must be safe to print.
	e.Message = hostpath.Line(e.Message)
	c.mu.Lock()
	switch decoded := DecodeEvent(&e).(type) {
	case Denial:
		c.report.Denials = denial.Add(c.report.Denials, decoded)
	case LimitReport:
		c.report.Limits = append(c.report.Limits, decoded)
	case audit.NetworkUse:
		c.report.Network = audit.AddNetworkUse(c.report.Network, decoded)
	}
	switch e.Kind {
	case shared.EventDegraded:
		switch n := len(c.report.Degraded); {
		case n < maxDegraded:
			c.report.Degraded = append(c.report.Degraded, e.Message)
		case n == maxDegraded:
			c.report.Degraded = append(c.report.Degraded, "further notes are not listed")
		}
	case shared.EventDiscarded:
		for key, to := range map[string]*uint64{"count": &c.report.Discarded, "processes": &c.report.Ended} {
			if n, err := strconv.ParseUint(e.Details[key], 10, 64); err == nil {
				*to = n
			}
		}
	case shared.EventTraced:
		if json.Unmarshal([]byte(e.Details["calls"]), &c.calls) != nil {
			c.calls = nil
		}
	}
	c.mu.Unlock()
	if events != nil {
		events(e)
	}
}

// fewNotes keeps the first notes, and counts the rest.
func fewNotes(notes []string) []string {
	if len(notes) <= maxNotes {
		return notes
	}
	return append(slices.Clip(notes[:maxNotes]), fmt.Sprintf("and %d more notes, which explain lists", len(notes)-maxNotes))
}

// maxNotes bounds a command's notes. A command can make a hundred thousand links, each with a note.
const maxNotes = 50
