//go:build unix

package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
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

// Close waits for a slot no longer than its caller says, but for the end of what EndProcesses has begun to end.
func TestCloseWhileProcessesEnd(t *testing.T) {
	t.Parallel()
	p := NewPool(Config{Engines: launch.New(launch.Options{}), Machine: &facts.Machine{}})
	ending, released := make(chan struct{}), make(chan struct{})
	s := &slot{lock: launch.NewLock()}
	p.slots[""] = s
	p.processes = &sharedProcesses{pool: p, opened: true, idle: time.NewTimer(time.Hour), slot: s, holds: []func(){func() {
		close(ending)
		<-released
	}}}
	ended := make(chan error)
	go func() { ended <- p.EndProcesses(t.Context()) }()
	<-ending
	time.AfterFunc(100*time.Millisecond, func() { close(released) })
	if err := p.Close(time.Millisecond); err != nil || p.HasProcesses() {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
