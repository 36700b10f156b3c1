// Package events has the queue in which the events of a command wait for a reader. A host and an
// engine have one each.
package events

import (
	"strconv"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// A Queue is a channel that never blocks its senders. It counts the events for which it has no space,
// and the last event has the count.
type Queue struct {
	mu      sync.Mutex
	ch      chan shared.Event
	dropped uint64
	closed  bool
}

// NewQueue makes a queue in which n events can wait.
func NewQueue(n int) *Queue {
	return &Queue{ch: make(chan shared.Event, n+1)} // and one, for the count
}

// Events is what readers receive from.
func (q *Queue) Events() <-chan shared.Event { return q.ch }

// Send adds an event. The count of another queue becomes a part of this one's.
func (q *Queue) Send(e shared.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, err := strconv.ParseUint(e.Details["count"], 10, 64)
	switch {
	case q.closed:
	case e.Kind == shared.EventDropped && err == nil:
		q.dropped += n
	case len(q.ch) >= cap(q.ch)-1: // only readers run beside us, so the free space can only grow
		q.dropped++
	default:
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		q.ch <- e
	}
}

// Close ends the channel, after the count. Further calls do nothing.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if q.dropped > 0 {
		count := strconv.FormatUint(q.dropped, 10)
		q.ch <- shared.Event{
			Kind: shared.EventDropped, Time: time.Now(),
			Message: count + " events were dropped because nobody read them in time, or because they were too long",
			Details: map[string]string{"count": count},
		}
	}
	close(q.ch)
}
