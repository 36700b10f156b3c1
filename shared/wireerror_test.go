package shared_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

var sentinels = []error{ErrUnsupported, ErrUnusable, ErrUnavailable, ErrInvalidSpec, ErrDenied, ErrNotFound, ErrNotExecutable, ErrClosed, ErrBroken,
	os.ErrProcessDone, ErrEngineLost}

// wireTrips are the ways in which an error travels.
func wireTrips(t *testing.T) map[string]func(error) error {
	m := &mirror{}
	e := connect(t, m).engine
	return map[string]func(error) error{"status": func(err error) error {
		m.err = err
		_, got := e.Probe(t.Context())
		return got
	}}
}

func TestSentinelsOnTheWire(t *testing.T) {
	if got, want := len(sentinels), len(pb.Error_Kind_name)-1; got != want {
		t.Errorf("%d kinds are tried, and %d in the protocol", got, want)
	}
	for way, trip := range wireTrips(t) {
		for _, sentinel := range sentinels {
			if got := trip(sentinel); got != sentinel {
				t.Errorf("%s: %v became %#v", way, sentinel, got)
			}
			for _, err := range []error{
				&Error{Kind: sentinel},
				&Error{Kind: sentinel, Attribute: "a", Message: "m", Hint: "h"},
				&Error{Kind: sentinel, Message: "m"},
				&Error{Kind: sentinel, Hint: "h"},
				fmt.Errorf("context: %w", sentinel),
				fmt.Errorf("context: %w", &Error{Kind: sentinel, Attribute: "a", Message: "m", Hint: "h"}),
			} {
				got := trip(err)
				if got.Error() != err.Error() || !errors.Is(got, sentinel) {
					t.Errorf("%s: %q became %q", way, err, got)
				}
				for _, other := range sentinels {
					if !errors.Is(sentinel, other) && errors.Is(got, other) {
						t.Errorf("%s: %q became %v, too", way, err, other)
					}
				}
				var before, after *Error
				if errors.As(err, &before) && *before != (Error{Kind: sentinel}) && (!errors.As(got, &after) || *before != *after) {
					t.Errorf("%s: %+v became %+v", way, before, after)
				}
			}
		}
	}
}

func TestOtherErrorsOnTheWire(t *testing.T) {
	for way, trip := range wireTrips(t) {
		for _, c := range []struct {
			err  error
			text string
		}{
			{errors.New("plain"), "plain"},
			{errors.New("bad \xff byte"), "bad \uFFFD byte"},
			{&Error{Message: "no kind", Hint: "none"}, "no kind; none"},
			{&Error{Kind: os.ErrExist, Attribute: "a"}, "a: file already exists"},
			{&Error{Message: "\xff", Attribute: "\xff", Hint: "\xff"}, "\uFFFD: \uFFFD; \uFFFD"},
		} {
			got := trip(c.err)
			if got == nil || got.Error() != c.text {
				t.Errorf("%s: %q became %v", way, c.err, got)
			}
			for _, sentinel := range sentinels {
				if errors.Is(got, sentinel) {
					t.Errorf("%s: %q became a %v", way, c.err, sentinel)
				}
			}
		}
		long := trip(&Error{Kind: ErrDenied, Message: strings.Repeat("é", 1<<20), Hint: strings.Repeat("x", 1<<20)})
		if !errors.Is(long, ErrDenied) || len(long.Error()) > 3*(32<<10) {
			t.Errorf("%s: a long error became one of %d bytes", way, len(long.Error()))
		}
	}
}

func TestContextErrorsOnTheWire(t *testing.T) {
	trip := wireTrips(t)["status"]
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := trip(want); got != want {
			t.Errorf("%v became %#v", want, got)
		}
		wrapped := fmt.Errorf("pulling: %w", want)
		if got := trip(wrapped); !errors.Is(got, want) || got.Error() != wrapped.Error() {
			t.Errorf("%v became %v", wrapped, got)
		}
	}
}
