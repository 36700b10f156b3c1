package enginetest

import (
	"context"
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// Main is the TestMain of a package that uses the kit.
func Main(m *testing.M) {
	Hook()
	os.Exit(m.Run())
}

// Run tries an engine, each case as a subtest. Without options it tries
// everything. An engine that does not work on this machine fails t: whoever
// may do without it asks its Probe first.
func Run(t *testing.T, engine shared.Engine, options ...Options) {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	s, err := New(t.Context(), engine, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	for _, c := range s.cases() {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			r := s.runCase(context.WithoutCancel(t.Context()), c)
			switch {
			case r.Status.Bad():
				t.Errorf("%s: %s: %s", r.Status, r.Title, r.Detail)
			case r.Status == Skipped, r.Status == NotApplicable:
				t.Skipf("%s: %s: %s", r.Status, r.Title, r.Detail)
			}
		})
	}
}
