package enginetest

import (
	"context"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// A timely engine is one whose every call returns: what hangs fails a case, and not
// the kit. A call may take a minute, or a rule's time if that is less, and Wait as long as its
// context; then it has a moment to obey that.
type timely struct {
	shared.Engine
	limit time.Duration
}

type timelySandbox struct {
	shared.Sandbox
	limit time.Duration
}

type timelyProcess struct{ shared.Process }

// obeyPatience is how long a call may take to return when its context has ended.
const obeyPatience = 10 * time.Second

// hungError says that a call did not return.
type hungError struct{ call string }

func (e *hungError) Error() string { return e.call + " does not return" }

// inTime makes a call that may not return. What it gives later, late takes care of.
func inTime[T any](ctx context.Context, limit time.Duration, call string, f func() (T, error), late func(T)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := f()
		done <- answer{value, err}
	}()
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	for ended := ctx.Done(); ; {
		select {
		case a := <-done:
			return a.value, a.err
		case <-ended:
			ended, over = nil, time.After(obeyPatience)
		case <-over:
			if late != nil {
				go func() {
					if a := <-done; a.err == nil {
						late(a.value)
					}
				}()
			}
			var none T
			return none, &hungError{call}
		}
	}
}

func (e *timely) Info(ctx context.Context) (shared.Info, error) {
	return inTime(ctx, e.limit, "Info", func() (shared.Info, error) { return e.Engine.Info(ctx) }, nil)
}

func (e *timely) Probe(ctx context.Context) (shared.Probe, error) {
	return inTime(ctx, e.limit, "Probe", func() (shared.Probe, error) { return e.Engine.Probe(ctx) }, nil)
}

func (e *timely) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	s, err := inTime(ctx, e.limit, "Open", func() (shared.Sandbox, error) { return e.Engine.Open(ctx, spec) },
		func(s shared.Sandbox) { s.Close(context.Background()) })
	if err != nil {
		return nil, err
	}
	return &timelySandbox{s, e.limit}, nil
}

func (s *timelySandbox) Start(ctx context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	p, err := inTime(ctx, s.limit, "Start", func() (shared.Process, error) { return s.Sandbox.Start(ctx, cmd, stdio) }, nil)
	if err != nil {
		return nil, err
	}
	return &timelyProcess{p}, nil
}

func (s *timelySandbox) Plan(ctx context.Context, cmd shared.Command) (shared.Plan, error) {
	return inTime(ctx, s.limit, "Plan", func() (shared.Plan, error) { return s.Sandbox.Plan(ctx, cmd) }, nil)
}

func (s *timelySandbox) Close(ctx context.Context) error {
	_, err := inTime(ctx, s.limit, "Close", func() (struct{}, error) { return struct{}{}, s.Sandbox.Close(ctx) }, nil)
	return err
}

func (p *timelyProcess) Wait(ctx context.Context) (shared.Result, error) {
	return inTime(ctx, 0, "Wait", func() (shared.Result, error) { return p.Process.Wait(ctx) }, nil)
}

func (p *timelyProcess) Signal(ctx context.Context, sig shared.Signal) error {
	_, err := inTime(ctx, attemptTimeout, "Signal", func() (struct{}, error) { return struct{}{}, p.Process.Signal(ctx, sig) }, nil)
	return err
}

// shut closes a sandbox at the end of a case. One that hangs fails that.
func (s *scene) shut(ctx context.Context, sandbox shared.Sandbox) {
	err := sandbox.Close(context.WithoutCancel(ctx))
	if _, hangs := err.(*hungError); hangs {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hung = err
	}
}
