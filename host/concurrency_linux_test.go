package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
)

// hookedEngine lets a test step in before each Start.
type hookedEngine struct {
	shared.Engine
	start func(context.Context) error
}

type hookedSandbox struct {
	shared.Sandbox
	engine *hookedEngine
}

func (e *hookedEngine) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	sandbox, err := e.Engine.Open(ctx, spec)
	return &hookedSandbox{sandbox, e}, err
}

func (s *hookedSandbox) Start(ctx context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	if err := s.engine.start(ctx); err != nil {
		return nil, err
	}
	return s.Sandbox.Start(ctx, cmd, stdio)
}

// slowHost gives a Host whose engine's Start says that it was entered and waits
// for release, or, with honest, for the end of its context.
func slowHost(t *testing.T, honest bool) (h *host.Host, entered, release chan struct{}) {
	entered, release = make(chan struct{}, 8), make(chan struct{})
	engine := &hookedEngine{Engine: noop.New(), start: func(ctx context.Context) error {
		entered <- struct{}{}
		if !honest {
			ctx = context.Background()
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	return fidelityHost(t, t.TempDir(), "noop", map[string]shared.Engine{"noop": engine}), entered, release
}

// within fails the test, with all stacks, where do does not return.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		panic(what + " hangs") // with the stack of every goroutine
	}
}

func TestNothingWaitsForStart(t *testing.T) {
	t.Parallel()
	h, entered, release := slowHost(t, true)
	cmd := h.Command(t.Context(), "", "true")
	started := make(chan error)
	go func() { started <- cmd.Start() }()
	<-entered
	within(t, "a method during Start", func() {
		for name, err := range map[string]error{
			"Signal": cmd.Signal(syscall.SIGTERM),
			"Wait":   cmd.Wait(),
			"Resize": cmd.Resize(host.TerminalSize{Rows: 1, Cols: 1}),
		} {
			if err == nil || !strings.Contains(err.Error(), "not started") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := cmd.StdinPipe(); err == nil {
			t.Error("StdinPipe gave a pipe that nobody closes")
		}
		if report := cmd.Report(); report.Result != nil {
			t.Errorf("report: %+v", report)
		}
	})
	close(release)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestCloseDuringStart(t *testing.T) {
	t.Parallel()
	h, entered, release := slowHost(t, false)
	started := make(chan error)
	go func() { started <- h.Command(t.Context(), "", "true").Run() }()
	<-entered
	within(t, "Close", func() { h.Close() })
	close(release)
	if err := <-started; !errors.Is(err, host.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// A Start whose context ends leaves neither descriptors nor goroutines.
func TestCancelDuringStart(t *testing.T) {
	h, entered, _ := slowHost(t, true)
	if err := h.Check(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	before := countOwn(t) // with the session that the Host keeps
	ctx, cancel := context.WithCancel(t.Context())
	cmd := h.Command(ctx, "", "cat")
	cmd.Stdin, cmd.Stdout = strings.NewReader("x"), io.Discard
	if _, err := cmd.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	go func() { started <- cmd.Start() }()
	<-entered
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	before.expectNoMore(t)
}

// At whatever moment the context ends: the command either never runs or is gone.
func TestContextEndsAtAnyMoment(t *testing.T) {
	for _, engine := range []string{"bwrap", "noop"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "bwrap" {
				requireBwrap(t)
			}
			h := fidelityHost(t, t.TempDir(), engine, nil)
			if err := h.Command(t.Context(), "", "true").Run(); err != nil {
				t.Fatal(err)
			}
			before := countOwn(t)
			moments := 100
			if testing.Short() {
				moments = 30
			}
			for i := range moments {
				hold, release, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				read, write, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*100/moments)*100*time.Microsecond)
				cmd := h.Command(ctx, "", "cat")
				cmd.Stdin, cmd.Stdout = hold, write
				err = cmd.Run()
				if exit, ok := errors.AsType[*host.ExitError](err); !errors.Is(err, context.DeadlineExceeded) && (!ok || exit.Signal != syscall.SIGKILL) {
					t.Errorf("%d: %v", i, err)
				}
				cancel()
				hold.Close()
				write.Close()
				read.SetReadDeadline(time.Now().Add(time.Minute))
				if n, err := read.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Fatalf("%d: the command lives on: %v", i, err)
				}
				read.Close()
				release.Close()
			}
			before.expectNoMore(t)
		})
	}
}

// eventfulHost gives a Host whose commands have an event each.
func eventfulHost(t *testing.T) *host.Host {
	t.Helper()
	root := t.TempDir()
	h, err := host.New(t.Context(), host.Options{
		Inject: map[string]shared.Engine{"noop": noop.New()}, Dir: root,
		Workspace: host.WorkspaceOptions{Root: root},
		Sandboxes: map[string]host.Definition{"default": {Engine: "noop", Limits: host.Limits{PIDs: 10, Enforce: "best_effort"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func TestEventsMayUseTheCmd(t *testing.T) {
	t.Parallel()
	cmd := eventfulHost(t).Command(t.Context(), "", "cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	limits := 0
	cmd.Events = func(e shared.Event) {
		if e.Kind != shared.EventLimit {
			return // of what noop does not hold: the command may have ended by then
		}
		limits = len(cmd.Report().Limits)
		if err := cmd.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		stdin.Close()
	}
	within(t, "Run", func() {
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
	})
	if limits != 1 {
		t.Errorf("the report during the event has %d limits", limits)
	}
}

func TestEventsThatBlock(t *testing.T) {
	t.Parallel()
	cmd := eventfulHost(t).Command(t.Context(), "", "sh", "-c", "echo out; cat")
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		out += string(p)
		return len(p), stdin.Close() // it ends when its output was read
	})
	release := make(chan struct{})
	defer close(release)
	cmd.Events = func(shared.Event) { <-release }
	within(t, "Run", func() {
		if err := cmd.Run(); !errors.Is(err, exec.ErrWaitDelay) || out != "out\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
}

// What the Host finds after a command's end reaches Events only after the call that still runs.
func TestEventsOneAtATime(t *testing.T) {
	t.Parallel()
	s := &stubs{root: realTemp(t), platform: &stubEngine{name: "bwrap"}}
	worktree := s.root + "/.git/worktrees/gone/gitdir"
	must(t, os.MkdirAll(filepath.Dir(worktree), 0o755), os.MkdirAll(s.root+"/.git/objects", 0o755), os.MkdirAll(s.root+"/.git/refs", 0o755),
		os.WriteFile(s.root+"/.git/HEAD", []byte("ref: refs/heads/main\n"), 0o644), os.WriteFile(s.root+"/.git/config", nil, 0o644))
	s.platform.starting = func() { must(t, os.WriteFile(worktree, []byte(s.root+"/gone/.git\n"), 0o644)) }
	h := s.host(t, host.Definition{Limits: host.Limits{PIDs: 10, Enforce: "best_effort"}}, nil)
	cmd := h.Command(t.Context(), "", "true")
	var calls atomic.Int32
	var messages []string
	cmd.Events = func(e shared.Event) {
		defer calls.Add(-1)
		if calls.Add(1) > 1 {
			t.Error("two calls at a time: ", e.Message)
			return
		}
		for len(cmd.Report().LostWorktrees) == 0 { // the Host has looked by then
			<-time.After(time.Millisecond)
		}
		messages = append(messages, e.Message)
	}
	within(t, "Run", func() { must(t, cmd.Run()) })
	if len(messages) < 2 || !strings.Contains(messages[len(messages)-1], "git worktree prune") {
		t.Errorf("got %q", messages)
	}
}

func TestWriterThatBlocks(t *testing.T) {
	t.Parallel()
	h := eventfulHost(t)
	release := make(chan struct{})
	var cmd *host.Cmd
	for timeout := 3 * time.Second; ; timeout *= 4 {
		cmd = h.Command(t.Context(), "", "cat")
		cmd.Stdin = bytes.NewReader(make([]byte, 8<<20))
		cmd.Timeout = timeout
		cmd.Stdout = writerFunc(func(p []byte) (int, error) {
			<-release
			return len(p), nil
		})
		err := cmd.Start()
		if err == nil {
			break
		}
		if !errors.Is(err, host.ErrTimedOut) || timeout > time.Minute { // on a busy machine it has not begun
			t.Fatal(err)
		}
	}
	waited := make(chan error)
	go func() { waited <- cmd.Wait() }()
	// The command ends by its timeout all the same; Wait is the writer's.
	within(t, "the end", func() {
		for !errors.Is(cmd.Signal(syscall.SIGCONT), os.ErrProcessDone) {
			<-time.After(time.Millisecond)
		}
	})
	close(release)
	if exit, ok := errors.AsType[*host.ExitError](<-waited); !ok || !exit.TimedOut {
		t.Errorf("got %v", exit)
	}
}

// enginesSince gives the processes of the engines that were started since before.
func enginesSince(t testing.TB, before map[int]string) []int {
	t.Helper()
	var pids []int
	for pid := range children(t, os.Getpid()) {
		if _, ok := before[pid]; !ok {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A terminal that a daemon holds is hung up when WaitDelay has passed, or when its
// output has dried up.
func TestTerminalHeldOpen(t *testing.T) {
	t.Parallel()
	h := eventfulHost(t)
	// It goes on once its output is read.
	cmd := h.Command(t.Context(), "", "sh", "-c",
		"exec 3<&0; setsid sh -c ': >started; exec cat <&3' & until test -e started; do sleep 0.01; done; echo out; until test -e read; do sleep 0.01; done")
	cmd.TTY = true
	cmd.WaitDelay = 50 * time.Millisecond
	var mu sync.Mutex
	var out bytes.Buffer
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if out.Write(p); out.String() == "out\r\n" {
			return len(p), os.WriteFile(h.Root()+"/read", nil, 0o644)
		}
		return len(p), nil
	})
	within(t, "Run", func() {
		err := cmd.Run()
		mu.Lock()
		defer mu.Unlock()
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) || out.String() != "out\r\n" {
			t.Errorf("got %q, %v", &out, err)
		}
	})
}

// An engine that hangs cannot keep a command beyond its context.
func TestHungEngine(t *testing.T) {
	before := children(t, os.Getpid())
	h := fidelityHost(t, t.TempDir(), "noop", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := h.Command(ctx, "", "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range enginesSince(t, before) {
		stop(t, pid)
	}
	cancel()
	within(t, "Wait", func() {
		err := cmd.Wait()
		if _, ok := errors.AsType[*host.EngineError](err); !ok || !errors.Is(err, shared.ErrEngineLost) {
			t.Errorf("got %v", err)
		}
	})
	if err := h.Command(t.Context(), "", "true").Run(); err != nil {
		t.Errorf("the next command: %v", err)
	}
}

// TestStorm starts commands from many goroutines while the engine is killed
// again and again, and then closes the Host under them.
func TestStorm(t *testing.T) {
	for _, engine := range []string{"bwrap", "noop"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "bwrap" {
				requireBwrap(t)
			}
			own := countOwn(t)
			before := children(t, os.Getpid())
			h := fidelityHost(t, t.TempDir(), engine, nil)
			var tried, succeeded atomic.Int64
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					for n := 0; ; n++ {
						want := fmt.Sprintf("%d %d\n", i, n)
						cmd := h.Command(t.Context(), "", "cat")
						cmd.Stdin = strings.NewReader(want)
						out, err := cmd.Output()
						tried.Add(1)
						switch {
						case err == nil && string(out) == want:
							succeeded.Add(1)
						case errors.Is(err, host.ErrClosed):
							return
						case errors.Is(err, shared.ErrEngineLost), errors.As(err, new(*host.EngineError)):
						default:
							t.Errorf("got %q, %v", out, err)
							return
						}
					}
				})
			}
			within(t, "the storm", func() {
				most := 5
				if testing.Short() {
					most = 2
				}
				for kills := 0; kills < most; kills++ {
					for target := succeeded.Load() + 20; succeeded.Load() < target && !t.Failed(); {
						<-time.After(time.Millisecond)
					}
					for _, pid := range enginesSince(t, before) {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				if err := h.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if left := enginesSince(t, before); len(left) > 0 {
					t.Errorf("engines after Close: %v", left)
				}
				wg.Wait()
			})
			t.Logf("%d commands, of which %d succeeded", tried.Load(), succeeded.Load())
			own.expectNoMore(t)
		})
	}
}

// What an engine that is gone had opened is gone, too.
func TestCrashesLeaveNothing(t *testing.T) {
	before := children(t, os.Getpid())
	h := fidelityHost(t, t.TempDir(), "noop", nil)
	var own own
	for i := range 20 {
		for {
			err := h.Command(t.Context(), "", "true").Run()
			if err == nil {
				break
			}
			if !errors.Is(err, shared.ErrEngineLost) {
				t.Fatal(err)
			}
		}
		switch i {
		case 2: // after which all that is made once is there
			own = countOwn(t)
		case 19:
			own.expectNoMore(t)
		}
		for _, pid := range enginesSince(t, before) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// A command that may have run when its start was given up counts as one that was killed: the next one tells what it
// made. One that its engine did not start has made nothing, and what one made that it started late is found.
func TestStartGivenUpIsUntold(t *testing.T) {
	t.Parallel()
	lost := &shared.Error{Kind: shared.ErrEngineLost, Message: "lost"}
	for _, tt := range []struct {
		name  string
		start func(ctx context.Context, release <-chan struct{}) error
		marks int
		says  string
	}{
		{"its context has ended", func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return ctx.Err() }, 1, "may have run"},
		{"it has started when nobody waits any more", func(_ context.Context, release <-chan struct{}) error { <-release; return nil }, 0, "may have run"},
		{"its engine is gone", func(context.Context, <-chan struct{}) error { return lost }, 1, "lost"},
		{"it is not found", func(context.Context, <-chan struct{}) error { return shared.ErrNotFound }, 0, "not found"},
	} {
		release := make(chan struct{})
		state := t.TempDir()
		engine := &hookedEngine{Engine: &stubEngine{name: "bwrap"}, start: func(ctx context.Context) error { return tt.start(ctx, release) }}
		h := new(stubs).host(t, host.Definition{Engine: "bwrap"}, func(o *host.Options) {
			o.Environ = append(o.Environ, "XDG_STATE_HOME="+state)
			o.Inject["bwrap"] = engine
		})
		cmd := h.Command(t.Context(), "", "true")
		cmd.Timeout = 2 * time.Second
		if err := cmd.Start(); err == nil || !strings.Contains(err.Error(), tt.says) || cmd.Report().Error != err.Error() {
			t.Fatalf("%s: %v, and the report says %q", tt.name, err, cmd.Report().Error)
		}
		close(release)
		var marks []string
		if !eventually(func() bool {
			marks = unreported(state)
			return len(marks) == tt.marks
		}) {
			t.Errorf("%s: %d marks, want %d", tt.name, len(marks), tt.marks)
		}
		within(t, "Close", func() { h.Close() })
	}
}

// While a host still looks at what a command made that nobody waits for, the next command gives no alarm.
func TestLateLookIsNoAlarm(t *testing.T) {
	t.Parallel()
	state, release := t.TempDir(), make(chan struct{})
	var ended atomic.Bool
	h := new(stubs).host(t, host.Definition{Engine: "bwrap"}, func(o *host.Options) {
		o.Environ = append(o.Environ, "XDG_STATE_HOME="+state)
		o.Inject["bwrap"] = &stubEngine{name: "bwrap"}
		o.Record = recording(func(r audit.Record) error {
			if r.Event == "end" && !ended.Swap(true) {
				<-release
			}
			return nil
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	cmd := h.Command(ctx, "", "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cancel()
	cmd.Wait()
	if marks := unreported(state); len(marks) != 1 {
		t.Errorf("marks %q", marks)
	}
	next := h.Command(t.Context(), "", "true")
	if err := next.Run(); err != nil || len(next.Report().Degraded) > 0 {
		t.Errorf("the next command: %v, %q", err, next.Report().Degraded)
	}
	close(release)
	if !eventually(func() bool { return len(unreported(state)) == 0 }) {
		t.Errorf("marks %q", unreported(state))
	}
}

// unreported returns the marks of commands that nobody has reported yet, without the one that a Host keeps for its next.
func unreported(state string) []string {
	list, _ := filepath.Glob(state + "/sbxhost/unreported/*")
	return slices.DeleteFunc(list, func(p string) bool {
		text, err := os.ReadFile(p)
		return errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(string(text), "-")
	})
}

// The end of a context in the moment in which the engine starts the command leaves no doubt about it.
func TestStartIsNotBrokenOff(t *testing.T) {
	t.Parallel()
	state, entered := t.TempDir(), make(chan struct{})
	engine := &hookedEngine{Engine: &stubEngine{name: "bwrap"}, start: func(ctx context.Context) error {
		close(entered)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
			return nil
		}
	}}
	h := new(stubs).host(t, host.Definition{Engine: "bwrap"}, func(o *host.Options) {
		o.Environ = append(o.Environ, "XDG_STATE_HOME="+state)
		o.Inject["bwrap"] = engine
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	cmd := h.Command(ctx, "", "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || cmd.Report().Result == nil {
		t.Errorf("%v, of %+v", err, cmd.Report())
	}
	if marks := unreported(state); len(marks) != 0 {
		t.Errorf("marks %q", marks)
	}
	must(t, h.Close())
	if marks, _ := filepath.Glob(state + "/sbxhost/unreported/*"); len(marks) != 0 {
		t.Errorf("marks %q", marks)
	}
}
