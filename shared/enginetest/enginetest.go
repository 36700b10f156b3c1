package enginetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// A Test is a *testing.T. It is spelled as what the kit needs of one, so that
// a program which links the kit for [Suite] does not link package testing.
type Test[T any] interface {
	Helper()                           // as of *testing.T, and so are all
	Context() context.Context          // ends what Run and RunBinary prepare, and no case
	Cleanup(f func())                  // removes what they have made
	Run(name string, f func(t T)) bool // is given each case, by its ID
	Parallel()                         // is called by each case that can bear it
	Fatal(args ...any)                 // says that nothing could be tried
	Errorf(format string, args ...any) // tells of a case that is Bad
	Skipf(format string, args ...any)  // tells of one that is Skipped or NotApplicable
}

// hooked says that this program's main has called Hook. It is process-wide
// because it is a fact about the process's main: only then is it safe to execute
// the program again and expect an action.
var hooked atomic.Bool

// Hook makes a program able to carry out probes inside sandboxes, and to be the
// init of engines that use package sandboxinit. It must be the first statement
// of main. In a process that was started for either it does not return.
func Hook() {
	sandboxinit.Hook()
	actor.Hook()
	hooked.Store(true)
}

// Main is the TestMain of a package that uses the kit; m is its *testing.M. In
// a process that was started to be an engine it serves the one given, if any, so
// that [RunBinary] can be given the test binary itself. It does not return.
func Main(m interface{ Run() int }, engine ...shared.Engine) {
	Hook()
	if len(engine) > 0 && os.Getenv(wire.Handshake.MagicCookieKey) == wire.Handshake.MagicCookieValue {
		shared.Serve(engine[0])
	}
	os.Exit(m.Run())
}

// RunBinary tries an engine's program as [Run] tries an engine, each call across
// the wire, and its process's own end besides. The program gets no environment
// but what the protocol needs, unless Options.Launch starts it. One that does not
// start fails t. The process ends with t.
func RunBinary[T Test[T]](t T, path string, options ...Options) {
	t.Helper()
	o := append(options, Options{})[0]
	if name, ok := strings.CutPrefix(filepath.Base(path), "sbxhost-engine-"); ok && o.Name == "" && !strings.HasSuffix(name, ".test") {
		o.Name = name // not that of the engine's tests
	}
	if o.Launch == nil {
		o.Launch = func(ctx context.Context) (*dial.Process, error) {
			cmd := exec.Command(path)
			closePlanted, err := PlantDescriptor(cmd)
			if err != nil {
				return nil, err
			}
			defer closePlanted()
			return dial.Launch(ctx, cmd, dial.LaunchOptions{StartTimeout: time.Minute, KeepSocket: true})
		}
	}
	engine, err := o.Launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Kill)
	Run(t, engine, o)
}

// PlantDescriptor has an engine's process start with one more file open, as one whose
// executable is pinned does. None of its commands may inherit that. release is
// called once the process has started, or failed to.
func PlantDescriptor(cmd *exec.Cmd) (release func(), err error) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), f)
	return func() { f.Close() }, nil
}

// Run tries an engine, each case as a subtest of t. Without options it tries
// everything. An engine that does not work on this machine fails t: whoever
// may do without it asks its Probe first. The cases run when the function of t has
// returned, beside one another, so that what they need is kept until then by t.Cleanup and not
// by defer. The engine is called from many goroutines at once.
func Run[T Test[T]](t T, engine shared.Engine, options ...Options) {
	t.Helper()
	o := append(options, Options{})[0]
	s, err := New(t.Context(), engine, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	if more := unknown(s.kit.Info.Features); len(more) > 0 {
		t.Run("unknown features", func(t T) { t.Skipf("warning: %s%s", notKnown, scene.Joined(more)) })
	}
	for _, c := range s.cases() {
		t.Run(c.ID, func(t T) {
			if !c.alone { // those come first, since the others wait for this function's end
				t.Parallel()
			}
			r := s.runCase(context.WithoutCancel(t.Context()), c)
			why, known := o.Known[c.ID]
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
