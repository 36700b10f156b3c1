package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/shared"
)

func TestStatusAndStreams(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	if out := sh(t, s, "echo out; echo err >&2; exit 7"); out.Status != (shared.ExitStatus{Code: 7}) || out.stdout != "out\n" || out.stderr != "err\n" {
		t.Errorf("got %+v", out)
	} else if rooted := !slices.ContainsFunc(out.events, func(e shared.Event) bool { return e.Details["mechanism"] == "landlock" }); rooted != (confine.Rooted(nil, false) != nil) {
		t.Errorf("rooted: %v; %+v", rooted, out.events)
	}
	if out := sh(t, s, "kill -TERM $$"); out.Status != (shared.ExitStatus{Signal: syscall.SIGTERM}) {
		t.Errorf("got %+v", out)
	}
	if out := sh(t, s, "exit 143"); out.Status != (shared.ExitStatus{Code: 143}) {
		t.Errorf("got %+v", out)
	}
	binary := make([]byte, 1<<20)
	for i := range binary {
		binary[i] = byte(i*7 + i>>8)
	}
	out := runCommand(t, s, shared.Command{Args: []string{"cat"}, Env: []string{"PATH=/bin"}, Dir: "/"}, string(binary))
	if !out.Status.Success() || out.stdout != string(binary) {
		t.Errorf("a megabyte came back as %d bytes, %v", len(out.stdout), out.Status)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	long := strings.Repeat("# "+strings.Repeat("x", 98)+"\n", 2000) + "echo $1"
	for _, script := range []string{"echo $1", long} {
		out := runCommand(t, s, shared.Command{Script: script, Args: []string{"a b"}, Env: []string{"PATH=/bin"}, Dir: "/"}, "")
		if out.stdout != "a b\n" {
			t.Errorf("a script of %d bytes: %+v", len(script), out)
		}
	}
}

// TestScratch runs a program in an image that holds nothing else.
func TestScratch(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{"image": dockerd.BareImage})})
	out := runCommand(t, s, shared.Command{Args: []string{"/busybox", "cat"}, Dir: "/"}, "through")
	if !out.Status.Success() || out.stdout != "through" {
		t.Errorf("got %+v", out)
	}
}

func TestNotStarted(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	for name, tt := range map[string]struct {
		cmd  shared.Command
		kind error
	}{
		"missing":        {shared.Command{Args: []string{"nosuch"}, Env: []string{"PATH=/bin"}, Dir: "/"}, shared.ErrNotFound},
		"not executable": {shared.Command{Args: []string{"/etc/passwd"}, Dir: "/"}, shared.ErrNotExecutable},
		"no directory":   {shared.Command{Args: []string{"/bin/true"}, Dir: "/nosuch"}, shared.ErrInvalidSpec},
	} {
		if _, err := s.Start(t.Context(), tt.cmd, shared.Stdio{}); !errors.Is(err, tt.kind) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if out := sh(t, s, "echo on"); out.stdout != "on\n" {
		t.Errorf("after commands that could not start: %+v", out)
	}
}

// started starts a script and waits for its first line.
func started(t *testing.T, s shared.Sandbox, cmd shared.Command) (shared.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	p, err := s.Start(t.Context(), cmd, shared.Stdio{Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	readLine(t, r)
	return p, r
}

func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := r.Read(b); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

func script(text string) shared.Command {
	return shared.Command{Args: []string{"/bin/sh", "-c", text}, Env: []string{"PATH=/bin"}, Dir: "/"}
}

func wait(t *testing.T, p shared.Process) shared.Result {
	t.Helper()
	result, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestSignals(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	p, r := started(t, s, script(`trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.1; done`))
	if err := p.Signal(t.Context(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if line := readLine(t, r); line != "got" {
		t.Errorf("got %q", line)
	}
	if got := wait(t, p); got.Status.Code != 5 {
		t.Errorf("got %+v", got)
	}
	if err := p.Signal(t.Context(), syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
	p, _ = started(t, s, script(`trap '' TERM INT HUP; echo ready; sleep 1000 & sleep 1000`))
	if err := p.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, p); got.Status.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", got)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	timed := func(text string, grace time.Duration) (out outcome) {
		cmd := script(text + `; echo set; while :; do sleep 0.1; done`)
		cmd.Grace = grace
		for cmd.Timeout = 2 * time.Second; out.stdout == "" && cmd.Timeout < time.Minute; cmd.Timeout *= 4 { // a machine that is slow now
			out = runCommand(t, s, cmd, "")
		}
		return out
	}
	if out := timed("trap 'exit 9' TERM", time.Minute); !out.TimedOut || out.Status.Code != 9 {
		t.Errorf("with a handler: %+v", out.Result)
	}
	if out := timed("trap '' TERM", 200*time.Millisecond); !out.TimedOut || out.Status.Signal != syscall.SIGKILL {
		t.Errorf("that ignores TERM: %+v", out.Result)
	}
}

// TestNothingOutlives has a command leave daemons that hold its output open: the
// reader must see the end.
func TestNothingOutlives(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	out := sh(t, s, `setsid sh -c 'trap "" TERM HUP; sleep 1000' & (sh -c 'sleep 1000 &' &) ; echo left`)
	if out.stdout != "left\n" || !out.Status.Success() {
		t.Errorf("got %+v", out)
	}
}

func TestCloseKills(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	p, _ := started(t, s, script(`trap '' TERM; echo ready; sleep 1000`))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, p); got.Status.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", got)
	}
	if _, err := s.Start(t.Context(), script("true"), shared.Stdio{}); !errors.Is(err, shared.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			out := sh(t, s, fmt.Sprintf("echo %d; exit %d", i, i))
			if out.Status.Code != i || out.stdout != fmt.Sprintln(i) {
				t.Errorf("command %d: %+v", i, out)
			}
		})
	}
	wg.Wait()
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Start(ctx, script("sleep 1000"), shared.Stdio{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestStartCancelledAtTheDaemon cancels a start when the daemon has made the container, and has not
// answered. It is alone, since it looks at all containers.
func TestStartCancelledAtTheDaemon(t *testing.T) {
	e, socket := newEngine(t), filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan struct{})
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	through := httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "daemon"}) },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", daemonFor(t).Socket)
		}},
		ModifyResponse: func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, "/containers/create") {
				cancel()
				<-returned
			}
			return nil
		},
	}
	server := http.Server{Handler: &through}
	serving := make(chan struct{})
	go func() {
		server.Serve(l)
		close(serving)
	}()
	defer func() {
		server.Shutdown(context.Background())
		<-serving
	}()
	getenv := e.surroundings.Getenv
	e.surroundings.Getenv = func(name string) string {
		if name == "DOCKER_HOST" {
			return "unix://" + socket
		}
		return getenv(name)
	}
	s, err := e.Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, script("sleep 1000"), shared.Stdio{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(returned)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := containers(t); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
}

// TestLeavesNothing looks at what is left of many ends.
func TestLeavesNothing(t *testing.T) {
	e, temp := newEngine(t), t.TempDir()
	getenv := e.surroundings.Getenv
	e.surroundings.Getenv = func(name string) string {
		if name == "TMPDIR" {
			return temp
		}
		return getenv(name)
	}
	s, err := e.Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{})})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, s, "true")
	s.Start(t.Context(), shared.Command{Args: []string{"/nosuch"}, Dir: "/"}, shared.Stdio{})
	p, _ := started(t, s, script("echo ready; sleep 1000"))
	id := containers(t)
	if len(id) == 0 {
		t.Error("no container is seen while a command runs")
	}
	p.Signal(t.Context(), syscall.SIGKILL)
	wait(t, p)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := containers(t); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}
