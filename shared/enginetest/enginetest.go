package enginetest

import (
	"context"
	"os"
	"os/exec"

	"github.com/sbxhost/sbxhost/shared"
)

// A Test is a *testing.T. It is spelled as what the kit needs of one, so that
// a program which links the kit for [Suite] does not link package testing.
type Test[T any] interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Run(name string, f func(t T)) bool
	Parallel()
	Fatal(args ...any)
	Errorf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Main is the TestMain of a package that uses the kit; m is its *testing.M. In
// a process that was started to be an engine it serves the one given, if any, so
// that [RunBinary] can be given the test binary itself.
func Main(m interface{ Run() int }, engine ...shared.Engine) {
	Hook()
	if len(engine) > 0 && os.Getenv(shared.Handshake.MagicCookieKey) == shared.Handshake.MagicCookieValue {
		shared.Serve(engine[0])
	}
	os.Exit(m.Run())
}

// RunBinary tries an engine's program as [Run] tries an engine, each call across
// the wire, and its process's own end besides. The program gets no environment
// but what the protocol needs.
func RunBinary[T Test[T]](t T, path string, options ...Options) {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	if o.Launch == nil {
		o.Launch = func(ctx context.Context) (*shared.Launched, error) {
			return shared.Launch(ctx, exec.Command(path), nil)
		}
	}
	engine, err := o.Launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Kill)
	Run(t, engine, o)
}

// Run tries an engine, each case as a subtest of t. Without options it tries
// everything. An engine that does not work on this machine fails t: whoever
// may do without it asks its Probe first.
func Run[T Test[T]](t T, engine shared.Engine, options ...Options) {
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
		t.Run(c.id, func(t T) {
			t.Parallel()
			r := s.runCase(context.WithoutCancel(t.Context()), c)
			why, known := o.Known[c.id]
			switch {
			case known && r.Status.Bad():
				t.Skipf("known: %s: %s: %s: %s", r.Status, r.Title, r.Detail, why)
			case known && r.Status == Held:
				t.Errorf("%s is said to fail, because %s, and does not", r.Title, why)
			case r.Status.Bad():
				t.Errorf("%s: %s: %s", r.Status, r.Title, r.Detail)
			case r.Status == Skipped, r.Status == NotApplicable:
				t.Skipf("%s: %s: %s", r.Status, r.Title, r.Detail)
			}
		})
	}
}
