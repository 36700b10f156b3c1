package shared_test

import (
	"context"
	"errors"
	"fmt"
	. "github.com/sbxhost/sbxhost/shared"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestTransports holds the promise of the package: what follows is the same
// whether an engine is called in process or lies behind the wire.
func TestTransports(t *testing.T) {
	for _, tr := range transports() {
		t.Run(tr.name, func(t *testing.T) {
			for _, c := range suite() {
				t.Run(c.name, func(t *testing.T) {
					checkLeaks(t)
					c.run(t, tr.connect(t, &testEngine{}))
				})
			}
		})
	}
}

type suiteCase struct {
	name string
	run  func(t *testing.T, e Engine)
}

func suite() []suiteCase {
	return []suiteCase{
		{"info", testInfo},
		{"exit codes", testExitCodes},
		{"signals", testSignals},
		{"signal after the end", testSignalAfterEnd},
		{"large binary streams", testLargeStreams},
		{"both outputs in one file", testSharedOutput},
		{"regular files", testRegularFiles},
		{"half-close of stdin", testHalfClose},
		{"stdin left open", testStdinLeftOpen},
		{"stdin that nobody reads", testStdinUnread},
		{"early close of stdout", testEarlyClose},
		{"slow reader", testSlowReader},
		{"one output blocks no other", testIndependentOutputs},
		{"timeout with a blocked output", testTimeoutBlocked},
		{"background process", testBackground},
		{"no stdio", testNoStdio},
		{"directory as stdio", testDirectory},
		{"events", testEvents},
		{"events nobody reads", testEventsDropped},
		{"progress of an opening", testOpenProgress},
		{"many at once", testConcurrent},
		{"wait", testWait},
		{"broken sandbox", testBroken},
		{"close", testClose},
		{"errors", testErrors},
		{"cancelled calls", testCancelled},
		{"plan", testPlan},
	}
}

func sh(script string, env ...string) Command {
	return Command{Script: script, Env: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, env...), Dir: "/"}
}

func startCommand(t testing.TB, s Sandbox, cmd Command, stdio Stdio) Process {
	t.Helper()
	p, err := s.Start(t.Context(), cmd, stdio)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return p
}

func waitFor(t testing.TB, p Process) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	r, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return r
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// runScript runs script and gives what it writes to stdout.
func runScript(t testing.TB, s Sandbox, script string) (string, Result) {
	t.Helper()
	r, w := pipe(t)
	p := startCommand(t, s, sh(script), Stdio{Stdout: w})
	w.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(got), waitFor(t, p)
}

func testInfo(t *testing.T, e Engine) {
	info, err := e.Info(t.Context())
	if err != nil || info.Name != "test" || !info.Features.Has(FeatureTTY) || !info.Options.Attributes[0].Required {
		t.Fatalf("Info: %+v, %v", info, err)
	}
	if probe, err := e.Probe(t.Context()); err != nil || probe.Ready || !strings.HasPrefix(probe.Reason, "bad ") {
		t.Fatalf("Probe: %+v, %v", probe, err)
	}
}

func testExitCodes(t *testing.T, e Engine) {
	s := open(t, e)
	for _, code := range []int{0, 1, 2, 124, 125, 126, 127, 128, 143, 255} {
		got := waitFor(t, startCommand(t, s, sh("exit "+strconv.Itoa(code)), Stdio{}))
		if got.Status != (ExitStatus{Code: code}) || got.TimedOut || got.Duration <= 0 {
			t.Errorf("exit %d: %+v", code, got)
		}
	}
}

func testSignals(t *testing.T, e Engine) {
	s := open(t, e)
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGKILL,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM,
	} {
		r, w := pipe(t)
		p := startCommand(t, s, sh("ulimit -c 0; echo; exec sleep 60"), Stdio{Stdout: w})
		w.Close()
		r.Read(make([]byte, 1)) // the shell has reset nothing by now
		if err := p.Signal(t.Context(), sig); err != nil {
			t.Fatalf("%v: %v", sig, err)
		}
		if got := waitFor(t, p).Status; got.Signal != sig {
			t.Errorf("%v: %v", sig, got)
		}
	}
	// A handler runs, and what it does is a normal end.
	r, w := pipe(t)
	p := startCommand(t, s, sh("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done"), Stdio{Stdout: w})
	r.Read(make([]byte, 1))
	if err := p.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := waitFor(t, p).Status; got != (ExitStatus{Code: 7}) {
		t.Errorf("handler: %v", got)
	}
}

func testSignalAfterEnd(t *testing.T, e Engine) {
	p := startCommand(t, open(t, e), sh(":"), Stdio{})
	waitFor(t, p)
	if err := p.Signal(t.Context(), syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v", err)
	}
}

func testEvents(t *testing.T, e Engine) {
	p := startCommand(t, open(t, e), sh(":", "TEST_EVENTS=100"), Stdio{})
	n := 0
	for event := range p.Events() {
		if event.Kind != EventProgress || event.Message != strconv.Itoa(n) || event.Time.UnixNano() != 1e9+int64(n) {
			t.Fatalf("event %d: %+v", n, event)
		}
		n++
	}
	if n != 100 {
		t.Errorf("%d events", n)
	}
	waitFor(t, p)
}

func testEventsDropped(t *testing.T, e Engine) {
	p := startCommand(t, open(t, e), sh(":", "TEST_EVENTS=1000"), Stdio{})
	waitFor(t, p)
	var events []Event
	for event := range p.Events() {
		events = append(events, event)
	}
	last := events[len(events)-1]
	if last.Kind != EventDropped || last.Details["count"] != strconv.Itoa(1000-len(events)+1) {
		t.Errorf("%d events, the last %+v", len(events), last)
	}
}

func testConcurrent(t *testing.T, e Engine) {
	s := open(t, e)
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			got, result := runScript(t, s, fmt.Sprintf("echo %d; exit %d", i, i))
			if got != fmt.Sprintln(i) || result.Status.Code != i {
				t.Errorf("%d: %q, %v", i, got, result)
			}
		})
	}
	group.Wait()
}

func testWait(t *testing.T, e Engine) {
	p := startCommand(t, open(t, e), sh("exec sleep 60"), Stdio{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(ctx); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if err := p.Signal(t.Context(), syscall.SIGINT); err != nil {
		t.Errorf("a cancelled Wait ended the command: %v", err)
	}
	first := waitFor(t, p)
	for range 3 {
		if again := waitFor(t, p); again != first {
			t.Errorf("%v, then %v", first, again)
		}
	}
	if got, err := p.Wait(ctx); err != nil && err != context.Canceled || err == nil && got != first {
		t.Errorf("cancelled, after the end: %v, %v", got, err)
	}
}

func testBroken(t *testing.T, e Engine) {
	cmd := sh("echo")
	cmd.Args = []string{"a", "test:break"}
	p := startCommand(t, open(t, e), cmd, Stdio{})
	for range 2 {
		if _, err := p.Wait(t.Context()); !errors.Is(err, ErrBroken) || err.Error() != "as asked" {
			t.Errorf("got %v", err)
		}
	}
}

func testClose(t *testing.T, e Engine) {
	s := open(t, e)
	other := open(t, e)
	r, w := pipe(t)
	p := startCommand(t, s, sh("echo; exec sleep 60"), Stdio{Stdout: w})
	survivor := startCommand(t, other, sh("exec sleep 60"), Stdio{})
	r.Read(make([]byte, 1))
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if got := waitFor(t, p).Status; got.Signal != syscall.SIGKILL {
		t.Error(got)
	}
	if _, err := s.Start(t.Context(), sh(":"), Stdio{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Start: %v", err)
	}
	if _, err := s.Plan(t.Context(), sh(":")); !errors.Is(err, ErrClosed) {
		t.Errorf("Plan: %v", err)
	}
	if err := survivor.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Errorf("another sandbox: %v", err)
	}
	waitFor(t, survivor)
}

func testErrors(t *testing.T, e Engine) {
	_, err := e.Open(t.Context(), Spec{Sandbox: "test:error",
		Options: []byte(`{"Attribute":"config.image","Message":"it is not there","Hint":"pull it"}`)})
	whole, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, ErrUnavailable) || whole.Attribute != "config.image" || whole.Message != "it is not there" || whole.Hint != "pull it" {
		t.Errorf("structured: %#v", err)
	}
	if want := "while opening: config.image: it is not there; pull it"; err == nil || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	_, err = e.Open(t.Context(), Spec{Sandbox: "test:plain-error"})
	if err == nil || strings.ToValidUTF8(err.Error(), "\uFFFD") != "plain \uFFFD text" {
		t.Errorf("plain: %v", err)
	}
	_, err = e.Open(t.Context(), Spec{Table: []Entry{{Access: 77, Source: "/", Path: "/"}}})
	if whole, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrInvalidSpec) || whole.Attribute != "table[0]" {
		t.Errorf("kind: %v", err)
	}
	_, err = open(t, e).Start(t.Context(), Command{Args: []string{"no-such-command"}, Dir: "/"}, Stdio{})
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("not found: %v", err)
	}
	_, err = open(t, e).Start(t.Context(), Command{Args: []string{"/bin/sh"}, Dir: "/no/such"}, Stdio{})
	if !errors.Is(err, ErrNotExecutable) {
		t.Errorf("not executable: %v", err)
	}
}

func testCancelled(t *testing.T, e Engine) {
	for _, c := range []struct {
		want error
		ctx  func() (context.Context, context.CancelFunc)
	}{
		{context.Canceled, func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			return ctx, cancel
		}},
		{context.DeadlineExceeded, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 20*time.Millisecond)
		}},
	} {
		ctx, cancel := c.ctx()
		defer cancel()
		if _, err := e.Open(ctx, Spec{Sandbox: "test:block"}); !errors.Is(err, c.want) {
			t.Errorf("Open: %v", err)
		}
		s := open(t, e)
		ctx, cancel = c.ctx()
		defer cancel()
		in, out := pipe(t)
		if _, err := s.Start(ctx, Command{Args: []string{"test:block"}, Dir: "/"}, Stdio{Stdin: in, Stdout: out}); !errors.Is(err, c.want) {
			t.Errorf("Start: %v", err)
		}
		if _, err := s.Start(ctx, sh(":"), Stdio{}); !errors.Is(err, c.want) {
			t.Errorf("Start with a context that is over: %v", err)
		}
	}
	// The context of Start covers the call alone.
	ctx, cancel := context.WithCancel(t.Context())
	r, w := pipe(t)
	p, err := open(t, e).Start(ctx, sh("echo; read x; exit 5"), Stdio{Stdin: r})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	fmt.Fprintln(w)
	if got := waitFor(t, p); got.Status.Code != 5 {
		t.Error(got)
	}
}

func testPlan(t *testing.T, e Engine) {
	got, err := open(t, e).Plan(t.Context(), Command{Args: []string{"a", "\xff"}})
	if err != nil || len(got.Argv) != 2 || got.Argv[1] != "\xff" || got.Notes[0] != "s" {
		t.Errorf("%q, %v", got, err)
	}
}

func testOpenProgress(t *testing.T, e Engine) {
	var got []string
	ctx := WithProgress(t.Context(), func(ev Event) { got = append(got, string(ev.Kind)+" "+ev.Message) })
	s, err := e.Open(ctx, Spec{Unconfined: true, Sandbox: "test:progress"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if want := []string{"progress 1", "progress 2", "progress 3"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// Nobody asks, and nobody is told.
	quiet, err := e.Open(t.Context(), Spec{Unconfined: true, Sandbox: "test:progress"})
	if err != nil {
		t.Fatal(err)
	}
	quiet.Close(t.Context())
}
