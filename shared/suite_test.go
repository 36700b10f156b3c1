package shared

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestTransports holds the promise of the package: what follows is the same
// whether an engine is called in process or lies behind either kind of wire.
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
		{"many at once", testConcurrent},
		{"wait", testWait},
		{"broken sandbox", testBroken},
		{"close", testClose},
		{"errors", testErrors},
		{"cancelled calls", testCancelled},
		{"plan", testPlan},
		{"resize", testResize},
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
	for _, sig := range []Signal{
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

// pattern is n bytes without a period that any buffer size has.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func testLargeStreams(t *testing.T, e Engine) {
	const size = 64<<20 + 13
	data := pattern(size)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	p := startCommand(t, open(t, e), sh("tee /dev/stderr"), Stdio{inR, outW, errW})
	inR.Close()
	outW.Close()
	errW.Close()
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := inW.Write(data); err != nil {
			t.Errorf("write: %v", err)
		}
		inW.Close()
	})
	want := sha256.Sum256(data)
	for _, r := range []*os.File{outR, errR} {
		group.Go(func() {
			h := sha256.New()
			n, err := io.Copy(h, r)
			if err != nil || n != size || !bytes.Equal(h.Sum(nil), want[:]) {
				t.Errorf("got %d bytes (%v), want %d, or other ones", n, err, size)
			}
		})
	}
	group.Wait()
	if got := waitFor(t, p).Status; !got.Success() {
		t.Error(got)
	}
}

func testSharedOutput(t *testing.T, e Engine) {
	r, w := pipe(t)
	p := startCommand(t, open(t, e), sh("for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo $i >&2; done"), Stdio{Stdout: w, Stderr: w})
	w.Close()
	got, _ := io.ReadAll(r)
	waitFor(t, p)
	if want := "1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9"; strings.Join(strings.Fields(string(got)), " ") != want {
		t.Errorf("got %q", got)
	}
}

func testRegularFiles(t *testing.T, e Engine) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/in", []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(dir + "/in")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(dir + "/out")
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString("zero\n")
	p := startCommand(t, open(t, e), sh("cat"), Stdio{Stdin: in, Stdout: out})
	out.Close()
	waitFor(t, p)
	// All is in the file once Wait has returned.
	if got, _ := os.ReadFile(dir + "/out"); string(got) != "zero\none\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

func testHalfClose(t *testing.T, e Engine) {
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	p := startCommand(t, open(t, e), sh("cat; echo end"), Stdio{Stdin: inR, Stdout: outW})
	inR.Close()
	outW.Close()
	fmt.Fprint(inW, "a")
	buf := make([]byte, 10)
	if n, err := outR.Read(buf); err != nil || string(buf[:n]) != "a" {
		t.Fatalf("interactive: %q, %v", buf[:n], err)
	}
	inW.Close()
	if got, _ := io.ReadAll(outR); string(got) != "end\n" {
		t.Errorf("got %q", got)
	}
	waitFor(t, p)
}

func testStdinLeftOpen(t *testing.T, e Engine) {
	inR, _ := pipe(t)
	if got := waitFor(t, startCommand(t, open(t, e), sh("exit 3"), Stdio{Stdin: inR})); got.Status.Code != 3 {
		t.Error(got)
	}
	// The caller's file is as it was.
	inR.SetReadDeadline(time.Unix(1, 0))
	if _, err := inR.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func testStdinUnread(t *testing.T, e Engine) {
	inR, inW := pipe(t)
	p := startCommand(t, open(t, e), sh("exec <&-; exec sleep 60"), Stdio{Stdin: inR})
	inR.Close()
	// The writer is told that nobody reads any more, while the command runs.
	if _, err := inW.Write(make([]byte, 8<<20)); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: %v", err)
	}
	p.Signal(t.Context(), syscall.SIGKILL)
	waitFor(t, p)
}

func testEarlyClose(t *testing.T, e Engine) {
	r, w := pipe(t)
	p := startCommand(t, open(t, e), sh("exec yes"), Stdio{Stdout: w})
	w.Close()
	r.Read(make([]byte, 100))
	r.Close()
	if got := waitFor(t, p).Status; got.Signal != syscall.SIGPIPE {
		t.Error(got)
	}
}

func testSlowReader(t *testing.T, e Engine) {
	const size = 16 << 20
	r, w := pipe(t)
	progress := t.TempDir() + "/progress"
	script := "head -c " + strconv.Itoa(size) + " /dev/zero; echo done >" + progress
	p := startCommand(t, open(t, e), sh(script), Stdio{Stdout: w})
	w.Close()
	buf := make([]byte, 1000)
	for range 100 {
		if _, err := io.ReadFull(r, buf); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait while nobody reads: %v", err)
	}
	if _, err := os.Stat(progress); err == nil {
		t.Errorf("the command wrote %d bytes that nobody has read", size)
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil || n != size-100*1000 {
		t.Errorf("got %d bytes, %v", n, err)
	}
	waitFor(t, p)
}

func testIndependentOutputs(t *testing.T, e Engine) {
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	p := startCommand(t, open(t, e), sh("head -c 8388608 /dev/zero & echo hello >&2; exec 2>&-; wait"), Stdio{Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	// All of stderr can be read before any of stdout.
	if n, err := io.ReadFull(errR, make([]byte, 6)); err != nil {
		t.Errorf("stderr: %d, %v", n, err)
	}
	if n, err := io.Copy(io.Discard, outR); n != 8<<20 {
		t.Errorf("stdout: %d, %v", n, err)
	}
	waitFor(t, p)
}

func testTimeoutBlocked(t *testing.T, e Engine) {
	_, w := pipe(t)
	cmd := sh("exec cat /dev/zero")
	cmd.Timeout = 200 * time.Millisecond
	p := startCommand(t, open(t, e), cmd, Stdio{Stdout: w})
	got := waitFor(t, p) // nobody ever reads
	if !got.TimedOut || got.Status.Signal != syscall.SIGKILL {
		t.Error(got)
	}
}

func testBackground(t *testing.T, e Engine) {
	s := open(t, e)
	r, w := pipe(t)
	// The process in the background has stdout for as long as it lives.
	p := startCommand(t, s, sh("sleep 60 & echo $!; echo ready"), Stdio{Stdout: w})
	w.Close()
	if got := waitFor(t, p); !got.Status.Success() {
		t.Error(got)
	}
	buf := make([]byte, 100)
	got := ""
	for !strings.HasSuffix(got, "ready\n") {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		got += string(buf[:n])
	}
	pid, err := strconv.Atoi(strings.Fields(got)[0])
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

func testNoStdio(t *testing.T, e Engine) {
	s := open(t, e)
	got := waitFor(t, startCommand(t, s, sh("cat; echo x; echo y >&2"), Stdio{}))
	if !got.Status.Success() {
		t.Error(got)
	}
	r, w := pipe(t)
	p := startCommand(t, s, sh("cat; echo x; echo y >&2"), Stdio{Stderr: w})
	w.Close()
	if text, _ := io.ReadAll(r); string(text) != "y\n" {
		t.Errorf("stderr alone: %q", text)
	}
	waitFor(t, p)
}

func testDirectory(t *testing.T, e Engine) {
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	closed, w := pipe(t)
	w.Close()
	closed.Close()
	s := open(t, e)
	for _, f := range []*os.File{dir, closed} {
		_, err := s.Start(t.Context(), sh(":"), Stdio{Stdin: f})
		if whole, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrInvalidSpec) || whole.Attribute != "stdin" {
			t.Errorf("got %v", err)
		}
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
	_, err = e.Open(t.Context(), Spec{Mounts: []Mount{{Kind: 77, Source: "/", Destination: "/"}}})
	if whole, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrInvalidSpec) || whole.Attribute != "mounts[0]" {
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

func testResize(t *testing.T, e Engine) {
	p := startCommand(t, open(t, e), sh("exec sleep 60"), Stdio{})
	if err := p.Resize(t.Context(), TerminalSize{Rows: 24, Cols: 65535}); !errors.Is(err, ErrUnsupported) || err.Error() != "size 24 x 65535" {
		t.Errorf("got %v", err)
	}
	p.Signal(t.Context(), syscall.SIGKILL)
	waitFor(t, p)
}
