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

// A Test is a *testing.T. It lists only the methods that the kit needs, so that a program which
// links the kit for [Suite] does not link package testing.
type Test[T any] interface {
	Helper()                           // a method of *testing.T, like all of these
	Context() context.Context          // ends the preparations of Run and RunBinary, but no case
	Cleanup(f func())                  // removes what they made
	Run(name string, f func(t T)) bool // receives each case, by its ID
	Parallel()                         // called by each case that permits it
	Fatal(args ...any)                 // reports that nothing could run
	Errorf(format string, args ...any) // reports a case that is Bad
	Skipf(format string, args ...any)  // reports a case that is Skipped or NotApplicable
}

// hooked says that this program's main has called Hook. It is process-wide because it is about the
// process's main: only then is it safe to execute the program again for an action.
var hooked atomic.Bool

// Hook prepares a program to carry out probes inside sandboxes, and to be the init of engines that
// use package sandboxinit. It must be the first statement of main. In a process that was started
// for either, it does not return.
func Hook() {
	sandboxinit.Hook()
	actor.Hook()
	hooked.Store(true)
}

// Main is the TestMain of a package that uses the kit; m is its *testing.M. In a process that was
// started as an engine it serves the engine argument, so that [RunBinary] can test the test binary
// itself. It does not return.
func Main(m interface{ Run() int }, engine ...shared.Engine) {
	Hook()
	if len(engine) > 0 && os.Getenv(wire.Handshake.MagicCookieKey) == wire.Handshake.MagicCookieValue {
		shared.Serve(engine[0])
	}
	os.Exit(m.Run())
}

// RunBinary tests an engine's program as [Run] tests an engine, with each call across the wire, and
// the end of its process. The program has only the protocol's environment, unless Options.Launch
// starts it. If it does not start, t fails. The process ends with t.
func RunBinary[T Test[T]](t T, path string, options ...Options) {
	t.Helper()
	o := append(options, Options{})[0]
	if name, ok := strings.CutPrefix(filepath.Base(path), "sbxhost-engine-"); ok && o.Name == "" && !strings.HasSuffix(name, ".test") {
		o.Name = name // not the name of the engine's test program
	}
	if o.Launch == nil {
		o.Launch = Launcher(exec.Command(path))
	}
	engine, err := o.Launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Kill)
	Run(t, engine, o)
}

// Launcher returns a function that starts an engine's process by a command, again and again. Each has one
// more open file, as for a pinned executable, which no command may inherit.
func Launcher(command *exec.Cmd) func(context.Context) (*dial.Process, error) {
	return func(ctx context.Context) (*dial.Process, error) {
		planted, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer planted.Close()
		cmd := *command
		cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), planted)
		return dial.Launch(ctx, &cmd, dial.LaunchOptions{StartTimeout: time.Minute, KeepSocket: true})
	}
}

// Run tests an engine, each case as a subtest of t. Without options it runs everything. If the
// engine does not work on this machine, t fails; to skip it instead, call Probe first. The cases
// run in parallel after the function of t has returned, so release what they need with t.Cleanup,
// not defer. Many goroutines call the engine at once.
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
			if !c.alone { // first, because the others wait for this function's end
				t.Parallel()
			}
			r := s.runCase(context.WithoutCancel(t.Context()), c)
			why, known := o.Known[c.ID]
			switch {
			case known && r.Status.Bad():
				t.Skipf("known: %s: %s: %s: %s", r.Status, r.Title, r.Detail, why)
			case known && r.Status == Held:
				t.Errorf("%s should fail, because %s, but does not", r.Title, why)
			case r.Status.Bad():
				t.Errorf("%s: %s: %s", r.Status, r.Title, r.Detail)
			case r.Status == Skipped, r.Status == NotApplicable:
				t.Skipf("%s: %s: %s", r.Status, r.Title, r.Detail)
			}
		})
	}
}
