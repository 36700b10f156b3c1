package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// wireTrips are the two ways in which an error travels.
func wireTrips() map[string]func(error) error {
	return map[string]func(error) error{
		"status":  func(err error) error { return errorFromStatus(errorToStatus(err)) },
		"message": func(err error) error { return errorFromPB(errorToPB(err)) },
	}
}

func TestSentinelsOnTheWire(t *testing.T) {
	kinds := wireKinds()
	if got, want := len(kinds), len(pb.Error_Kind_name)-1; got != want {
		t.Errorf("%d kinds in the table, %d in the protocol", got, want)
	}
	for way, trip := range wireTrips() {
		for _, k := range kinds {
			if got := trip(k.sentinel); got != k.sentinel {
				t.Errorf("%s: %v became %#v", way, k.sentinel, got)
			}
			for _, err := range []error{
				&Error{Kind: k.sentinel},
				&Error{Kind: k.sentinel, Attribute: "a", Message: "m", Hint: "h"},
				&Error{Kind: k.sentinel, Message: "m"},
				&Error{Kind: k.sentinel, Hint: "h"},
				fmt.Errorf("context: %w", k.sentinel),
				fmt.Errorf("context: %w", &Error{Kind: k.sentinel, Attribute: "a", Message: "m", Hint: "h"}),
			} {
				got := trip(err)
				if got.Error() != err.Error() || !errors.Is(got, k.sentinel) {
					t.Errorf("%s: %q became %q", way, err, got)
				}
				for _, other := range kinds {
					if !errors.Is(k.sentinel, other.sentinel) && errors.Is(got, other.sentinel) {
						t.Errorf("%s: %q became %v, too", way, err, other.sentinel)
					}
				}
				var before, after *Error
				if errors.As(err, &before) && *before != (Error{Kind: k.sentinel}) && (!errors.As(got, &after) || *before != *after) {
					t.Errorf("%s: %+v became %+v", way, before, after)
				}
			}
		}
	}
}

func TestOtherErrorsOnTheWire(t *testing.T) {
	for way, trip := range wireTrips() {
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
			for _, k := range wireKinds() {
				if errors.Is(got, k.sentinel) {
					t.Errorf("%s: %q became a %v", way, c.err, k.sentinel)
				}
			}
		}
		long := trip(&Error{Kind: ErrDenied, Message: strings.Repeat("é", 1<<20), Hint: strings.Repeat("x", 1<<20)})
		if !errors.Is(long, ErrDenied) || len(long.Error()) > 3*maxErrorText {
			t.Errorf("%s: a long error became one of %d bytes", way, len(long.Error()))
		}
	}
	if errorToStatus(nil) != nil || errorFromStatus(nil) != nil {
		t.Error("nil is an error")
	}
}

func TestContextErrorsOnTheWire(t *testing.T) {
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := errorFromStatus(errorToStatus(want)); got != want {
			t.Errorf("%v became %#v", want, got)
		}
		wrapped := fmt.Errorf("pulling: %w", want)
		if got := errorFromStatus(errorToStatus(wrapped)); !errors.Is(got, want) || got.Error() != wrapped.Error() {
			t.Errorf("%v became %v", wrapped, got)
		}
	}
}

func TestLostConnection(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{status.Error(codes.Unavailable, "connection refused"), ErrEngineLost},
		{io.EOF, ErrEngineLost},
		{status.Error(codes.Canceled, clientClosing), ErrEngineLost},
		{status.Error(codes.Unimplemented, "unknown method Plan"), ErrUnsupported},
	} {
		got := errorFromStatus(c.err)
		if !errors.Is(got, c.want) {
			t.Errorf("%v became %v", c.err, got)
		}
	}
	if got := errorFromStatus(status.Error(codes.ResourceExhausted, "too long")); got.Error() != "too long" {
		t.Errorf("got %v", got)
	}
}
