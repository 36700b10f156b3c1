package events

import (
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	const size = 7
	q := NewQueue(size)
	for range size + 5 {
		q.Send(shared.Event{Kind: shared.EventProgress})
	}
	q.Send(shared.Event{Kind: shared.EventDropped, Details: map[string]string{"count": "3"}}) // another queue's
	q.Close()
	q.Close()
	q.Send(shared.Event{})
	var got []shared.Event
	for event := range q.Events() {
		got = append(got, event)
	}
	last := got[len(got)-1]
	if len(got) != size+1 || last.Kind != shared.EventDropped || last.Details["count"] != "8" || last.Time.IsZero() {
		t.Errorf("%d events, the last %+v", len(got), last)
	}
}
