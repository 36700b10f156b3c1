package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// caseTimeout ends a case that hangs, unless the options say otherwise; with Options.Brief it is
	// briefTimeout.
	caseTimeout, briefTimeout = 90 * time.Second, 5 * time.Minute
	// closeTimeout bounds the cleanup after a case.
	closeTimeout = 30 * time.Second
	// obeyPatience is how long a call of an engine may go on after its context has ended.
	obeyPatience = 5 * time.Second
	// outlivePatience is how long the outputs of a command may stay open after its end. After that,
	// the kit assumes that a process has outlived the command.
	outlivePatience = 10 * time.Second
)

// Status is the outcome of a case. See enginetest.Status.
type Status string

// See the constants of these names in enginetest.
const (
	Held          Status = "held"
	Leaked        Status = "leaked"
	Failed        Status = "failed"
	Hung          Status = "hung"
	ControlFailed Status = "control-failed"
	Skipped       Status = "skipped"
	NotApplicable Status = "not-applicable"
)

// Bad reports whether the engine, or the kit on this machine, has failed.
func (s Status) Bad() bool {
	return s == Leaked || s == Failed || s == Hung || s == ControlFailed
}

// An ending is thrown to end a case.
type ending struct {
	status Status
	detail string
}

// End ends the case.
func (s *Scene) End(status Status, format string, args ...any) {
	panic(&ending{status, fmt.Sprintf(format, args...)})
}

// Failf ends the case as failed.
func (s *Scene) Failf(format string, args ...any) { s.End(Failed, format, args...) }

// Expect ends the case with a status unless what is expected is so.
func (s *Scene) Expect(is bool, otherwise Status, format string, args ...any) {
	if !is {
		s.End(otherwise, format, args...)
	}
}

// Needs ends the case as not applicable unless the machine has what the case needs.
func (s *Scene) Needs(has bool, format string, args ...any) {
	s.Expect(has, NotApplicable, format, args...)
}

// NeedsCores ends the case where cores of commands would not stay in their directories.
func (s *Scene) NeedsCores() {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	s.Needs(err == nil && !strings.ContainsAny(string(pattern[:1]), "|/"), "cores of this machine leave the sandbox: %q", pattern)
}

// Demand ends the case as failed unless a demand is met.
func (s *Scene) Demand(met bool, format string, args ...any) {
	s.Expect(met, Failed, format, args...)
}

// Must ends the case if there is an error.
func (s *Scene) Must(err error) { s.Demand(err == nil, "%v", err) }

// Wants ends the case unless an error is of one of the kinds.
func (s *Scene) Wants(what string, err error, kinds ...error) {
	const most = 3 * 32 << 10 // of each of the texts of an error 32 KiB
	s.Demand(err == nil || len(err.Error()) <= most, "%s: the error has more than %d bytes", what, most)
	wanted := slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
	s.Demand(wanted, "%s: got %v, want %v", what, err, kinds)
}

// caught runs f until something ends the case.
func caught(f func()) (e *ending) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *ending:
			e = v
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// Check tries one of the things that a case demands. The case goes on, and fails in the end.
func (s *Scene) Check(what any, f func()) {
	if e := caught(f); e != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = append(s.faults, fmt.Sprintf("%v: %s", what, e.detail))
	}
}

// Faultf is a Check that fails.
func (s *Scene) Faultf(what any, format string, args ...any) {
	s.Check(what, func() { s.Failf(format, args...) })
}

// Together checks n things at once.
func (s *Scene) Together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { s.Check(i, func() { f(i) }) })
	}
	group.Wait()
}

// returned returns the results of f. An engine that ignores contexts cannot hang the kit: soon after
// ctx has ended, returned does not wait for f any more.
func returned[T any](ctx context.Context, patience time.Duration, f func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	var late T
	var lateErr error
	go func() {
		defer close(done)
		late, lateErr = f()
	}()
	select {
	case <-done:
		return late, lateErr
	case <-ctx.Done():
	}
	select {
	case <-done:
		return late, lateErr
	case <-time.After(patience):
		return value, fmt.Errorf("it does not end: %w", context.Cause(ctx))
	}
}

// Limit is how long a case may take.
func (k *Kit) Limit() time.Duration {
	usual := caseTimeout
	if k.Brief {
		usual = briefTimeout
	}
	const perSecond = 8 << 20 // of a stream, at the least
	return cmp.Or(k.CaseTimeout, usual+time.Duration(k.StreamBytes/perSecond)*time.Second)
}

// InScene runs a case in a scene with that name.
func (k *Kit) InScene(given context.Context, p Place, name string, f func(*Scene)) (Status, string) {
	limit := k.Limit()
	ctx, cancel := context.WithTimeout(given, limit)
	defer cancel()
	patience := min(obeyPatience, limit/3)
	sc := k.Layout(p, name)
	sc.Ctx, sc.Limit = ctx, limit
	e, err := returned(ctx, patience, func() (*ending, error) {
		return caught(func() {
			sc.plant()
			f(sc)
			sc.Demand(len(sc.faults) == 0, "%s", strings.Join(sc.faults, "\n"))
		}), nil
	})
	switch {
	case err != nil:
		e = &ending{Hung, fmt.Sprintf("in %v it did not end", limit)}
	case e == nil:
		e = &ending{Held, ""}
	case e.status == Failed && errors.Is(ctx.Err(), context.DeadlineExceeded):
		e = &ending{Hung, fmt.Sprintf("in %v it did not end: %s", limit, e.detail)}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(given), min(limit, closeTimeout))
	defer cancel()
	if _, err := returned(closing, patience, func() (none struct{}, err error) { return none, sc.Close() }); !e.status.Bad() && err != nil {
		e = &ending{Failed, "cleaning up: " + err.Error()}
	}
	return e.status, e.detail
}
