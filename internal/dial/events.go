//go:build unix

package dial

import (
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// maxEvents bounds the events that wait for a slow or absent reader.
const maxEvents = 256 // and one, for the count

// An eventBuffer never blocks its single writer. It counts events beyond its bound, and the last
// event has the count.
type eventBuffer struct {
	ch      chan shared.Event
	dropped uint64
}

func (b *eventBuffer) put(e shared.Event) {
	if e.Kind == shared.EventDropped {
		// The engine's own count becomes part of the final one.
		if n, err := strconv.ParseUint(e.Details["count"], 10, 64); err == nil {
			b.dropped += n
			return
		}
	}
	if len(b.ch) >= maxEvents { // readers can only make it shorter
		b.dropped++
		return
	}
	b.ch <- e
}

func (b *eventBuffer) close() {
	if b.dropped > 0 {
		count := strconv.FormatUint(b.dropped, 10)
		b.ch <- shared.Event{
			Kind:    shared.EventDropped,
			Time:    time.Now(),
			Message: count + " events were dropped because nobody read them, or because they were too long",
			Details: map[string]string{"count": count},
		}
	}
	close(b.ch)
}

// eventFromPB returns an event. Its message has no numbers that could be unknown.
func eventFromPB(in *pb.Event) shared.Event {
	e, _ := pb.From[shared.Event](in)
	return e
}
