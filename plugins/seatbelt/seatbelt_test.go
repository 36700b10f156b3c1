package seatbelt

import (
	"errors"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestNeverReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ goos, reason string }{
		{"linux", "needs macOS"},
		{"darwin", "cannot generate seatbelt profiles yet"},
	} {
		e := engine{goos: tt.goos}
		p, err := e.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.Ready || !strings.Contains(p.Reason, tt.reason) || p.Fix == "" {
			t.Errorf("%s: Probe = %+v", tt.goos, p)
		}
		sandbox, err := e.Open(t.Context(), shared.Spec{})
		if sandbox != nil || !errors.Is(err, shared.ErrUnavailable) || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: Open = %v, %v", tt.goos, sandbox, err)
		}
	}
}

// A Spec that makes no sense is named even here, and one that asks for no
// isolation is not run either.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	if _, err := New().Open(t.Context(), shared.Spec{Home: "relative"}); !errors.Is(err, shared.ErrInvalidSpec) {
		t.Errorf("Open of a relative home = %v", err)
	}
	if _, err := New().Open(t.Context(), shared.Spec{Unconfined: true}); !errors.Is(err, shared.ErrUnavailable) {
		t.Errorf("Open of an unconfined Spec = %v", err)
	}
}

func TestInfoClaimsNothing(t *testing.T) {
	t.Parallel()
	info, err := New().Info(t.Context())
	if err != nil || info.Name != "seatbelt" || info.Doc == "" || len(info.Features) != 0 {
		t.Errorf("Info = %+v, %v", info, err)
	}
}
