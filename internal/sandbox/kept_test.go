//go:build unix

package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/launch"
)

// What may still run keeps its stubs.
func TestProcessesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	p := NewPool(Config{})
	released := false
	k := &sharedProcesses{pool: p, opened: true, idle: time.NewTimer(time.Hour), slot: &slot{lock: launch.NewLock()},
		holds: []func(){func() { released = true }}}
	p.processes = k
	if err := k.slot.lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.EndProcesses(over); !errors.Is(err, context.Canceled) || released || p.processes != k || k.ended != nil {
		t.Errorf("%v, released: %v", err, released)
	}
	k.slot.lock.Release()
	if err := p.EndProcesses(t.Context()); err != nil || !released || p.HasProcesses() {
		t.Errorf("%v, released: %v", err, released)
	}
}
