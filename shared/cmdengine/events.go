package cmdengine

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/shared"
)

// tracedEvent reports what a command failed at.
func tracedEvent(calls []traced.Call) shared.Event {
	list := make([]shared.TracedCall, len(calls))
	for i, c := range calls {
		list[i] = shared.TracedCall{Wants: c.Wants.String(), Target: c.Target, Error: unix.ErrnoName(c.Errno)}
	}
	text, _ := json.Marshal(list) // texts and numbers always encode
	return shared.Event{Kind: shared.EventTraced, Message: strconv.Itoa(len(calls)) + " different calls of the command have failed",
		Details: map[string]string{"calls": string(text)}}
}

// eventBuffer is how many events can wait for a reader: a command that asks for many names causes
// one for each.
const eventBuffer = 1024

// events is a channel that never blocks its sender.
type events struct {
	mu      sync.Mutex
	ch      chan shared.Event
	dropped int
	closed  bool
}

func newEvents() *events {
	// One slot more, for the event that counts the dropped ones.
	return &events{ch: make(chan shared.Event, eventBuffer+1)}
}

func (e *events) send(event shared.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	// Only readers run beside us, so the free space can only grow.
	if len(e.ch) >= eventBuffer {
		e.dropped++
		return
	}
	if event.Time.IsZero() {
		event.Time = time.Now()
	}
	e.ch <- event
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.closed = true
	if e.dropped > 0 {
		count := strconv.Itoa(e.dropped)
		e.ch <- shared.Event{
			Kind: shared.EventDropped, Time: time.Now(),
			Message: count + " events were lost because nobody read them in time",
			Details: map[string]string{"count": count},
		}
	}
	close(e.ch)
}
