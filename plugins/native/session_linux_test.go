package native

import (
	"context"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// The first sandbox without a session has the holder that was started ahead, and one
// that nobody needs ends when that is over.
func TestStartEarly(t *testing.T) {
	t.Parallel()
	need(t)
	startEarly := func(e *engine) (over func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.StartEarly(ctx)
		}()
		return func() {
			cancel()
			<-done
		}
	}
	e := &engine{}
	over := startEarly(e)
	s := e.sessions.get(&shared.Spec{})
	client, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over()
	if again, err := s.connect(t.Context()); err != nil || again != client {
		t.Errorf("the holder was not kept: %v", err)
	}
	e.sessions.put(s)
	<-client.Lost()

	e = &engine{}
	startEarly(e)()
	if len(e.sessions.open) > 0 {
		t.Errorf("a holder is left: %v", e.sessions.open)
	}
}
