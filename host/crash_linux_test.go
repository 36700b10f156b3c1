package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/shared"
	"golang.org/x/sys/unix"
)

// children lists the processes whose parent is pid, with their command lines.
func children(t testing.TB, pid int) map[int]string {
	t.Helper()
	found := map[int]string{}
	for _, child := range proc.All() {
		if proc.Stat(child, proc.StatParent) == strconv.Itoa(pid) {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			found[child] = strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}
	return found
}

// descend follows the only child of pid for n generations.
func descend(t testing.TB, pid, n int) int {
	t.Helper()
	for range n {
		next := children(t, pid)
		if len(next) != 1 {
			t.Fatalf("process %d has the children %v, want one", pid, next)
		}
		for child := range next {
			pid = child
		}
	}
	return pid
}

// hostProcess is a program that embeds the host, running one command that
// writes "ready" and then sleeps, holding held open.
type hostProcess struct {
	*exec.Cmd
	held   *os.File // reads EOF when nobody inside is left
	stderr *strings.Builder
	tmp    string
}

func startHostProcess(t *testing.T) *hostProcess {
	t.Helper()
	requireBwrap(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	p := &hostProcess{Cmd: exec.Command(os.Args[0]), held: read, stderr: &strings.Builder{}, tmp: t.TempDir()}
	p.Env = append(os.Environ(), hostProcessEnv+"="+t.TempDir(), "TMPDIR="+p.tmp, "XDG_RUNTIME_DIR=")
	p.Stdout, p.Stderr = write, p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	line, err := bufio.NewReaderSize(io.LimitReader(read, 6), 16).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("got %q, %v; stderr: %s", line, err, p.stderr)
	}
	return p
}

// gone waits until nobody holds the command's output: everything inside ended.
func (p *hostProcess) gone(t *testing.T) {
	t.Helper()
	p.held.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := p.held.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("something inside lives on: %d, %v", n, err)
	}
}

// leavesNothing checks that the private directory is empty. The engine of a
// killed host removes its own; its end is that of the lock it holds on nothing,
// so the wait is for the directory itself.
func (p *hostProcess) leavesNothing(t *testing.T) {
	t.Helper()
	var left []string
	if !eventually(func() bool {
		var err error
		if left, err = filepath.Glob(p.tmp + "/*"); err != nil {
			t.Fatal(err)
		}
		return len(left) == 0
	}) {
		t.Errorf("left behind: %v", left)
	}
}

// eventually waits for what another process is about to bring about, and reports
// whether it did.
func eventually(done func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !done(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Kill -9 at each stage: nothing is left, and what survives says what happened.
func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("host", func(t *testing.T) {
		t.Parallel()
		p := startHostProcess(t)
		engine := descend(t, p.Process.Pid, 1)
		p.Process.Kill()
		p.Wait()
		p.gone(t)
		p.leavesNothing(t)
		// It goes on for a moment when it has cleared away.
		if !eventually(func() bool {
			cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", engine))
			return err != nil || !strings.Contains(string(cmdline), os.Args[0])
		}) {
			t.Errorf("the engine lives on")
		}
	})
	for _, test := range []struct {
		name        string
		generations int
		says        []string
	}{
		{"engine", 1, []string{"engine process is gone", "signal: killed", "its commands with it"}},
		{"init", 2, []string{"init"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := startHostProcess(t)
			victim := descend(t, p.Process.Pid, test.generations)
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.gone(t)
			if err := p.Wait(); err != nil {
				t.Errorf("the host: %v", err)
			}
			said := p.stderr.String()
			first, rest, _ := strings.Cut(said, "next:")
			for _, want := range test.says {
				if !strings.Contains(first, want) {
					t.Errorf("the command's error does not say %q: %s", want, first)
				}
			}
			if !strings.Contains(first, "again") || !strings.HasPrefix(rest, " <nil>") {
				t.Errorf("the next command did not run: %s", said)
			}
			p.leavesNothing(t)
		})
	}
}

// TestManyInARow looks for what runs leave behind: descriptors, goroutines,
// processes and files.
func TestManyInARow(t *testing.T) {
	h := newHost(t, nil)
	runs := 1000
	if testing.Short() {
		runs = 50
	}
	run := func(n int) {
		for i := range n {
			cmd := h.Command(t.Context(), "fast", "true")
			if i%10 == 0 {
				cmd.Args = []string{"cat"}
				cmd.Stdin = strings.NewReader("x")
				cmd.Stdout = io.Discard
			}
			if i%25 == 0 {
				cmd.Args = []string{"no-such-command"}
			}
			if err := cmd.Run(); err != nil && !errors.Is(err, shared.ErrNotFound) {
				t.Fatal(err)
			}
		}
	}
	run(20)
	before := countOwn(t)
	run(runs)
	before.expectNoMore(t)
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(h.Root())
	if err != nil || len(left) != 0 {
		t.Errorf("left in the workspace: %v, %v", left, err)
	}
}

// withEngine gives a host with an engine of its own among those of the tests that run beside
// this one, and what finds the engine's process. Neither its parent nor its children tell: the
// holder of a session outlives it.
func withEngine(t *testing.T, change func(*host.Options)) (h *host.Host, engine func() int) {
	t.Helper()
	mark := "TMPDIR=" + t.TempDir()
	h = newHost(t, func(o *host.Options) {
		o.Environ = append(os.Environ(), mark)
		change(o)
	})
	return h, func() int {
		t.Helper()
		for pid := range children(t, os.Getpid()) {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // of a dead one it is empty
			if slices.Contains(strings.Split(string(environ), "\x00"), mark) {
				return pid
			}
		}
		t.Fatal("no engine runs")
		return 0
	}
}

// stop stops a process of ours. Its threads stop one by one, and the last could still serve
// what it is asked: kill a command, or start one.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}

// A command that begins once its engine is dead has a new one, whether the host knows of that
// death yet or not.
func TestDeadEngine(t *testing.T) {
	t.Parallel()
	h, running := withEngine(t, func(*host.Options) {})
	for range 20 {
		cmd := h.Command(t.Context(), "fast", "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		engine := running()
		if err := cmd.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		pidfd, err := unix.PidfdOpen(engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
			t.Fatal(err)
		}
		// Its last thread is gone; who reaps it need not have run yet.
		if !eventually(func() bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
			return n == 1
		}) {
			t.Fatal("the engine does not die")
		}
		unix.Close(pidfd)
		if err := h.Command(t.Context(), "fast", "true").Run(); err != nil {
			t.Errorf("the next command: %v", err)
		}
	}
}

// An engine that is stopped holds up nobody: what it was to run ends with its time or
// its context, and the next command has a new engine.
func TestStoppedEngine(t *testing.T) {
	t.Parallel()
	h, engine := withEngine(t, func(o *host.Options) {
		o.Session.OneShot = true
		o.Sandboxes["fast"] = host.Definition{Engine: "native", Limits: host.Limits{Grace: 100 * time.Millisecond}}
	})
	command := func(ctx context.Context) *host.Cmd { return h.Command(ctx, "fast", "sleep", "1000") }
	in := func(what string, do func() error) (err error) {
		t.Helper()
		within(t, what, func() { err = do() })
		return err
	}
	stopped := 0
	stopEngine := func() {
		t.Helper()
		stopped = engine()
		stop(t, stopped)
	}
	stopIdle := func() {
		t.Helper()
		cmd := command(t.Context())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		stopEngine()
	}
	next := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		err := h.Command(ctx, "fast", "true").Run()
		if errors.Is(err, shared.ErrEngineLost) { // it was asked before it was killed
			err = h.Command(ctx, "fast", "true").Run()
		}
		if err != nil {
			t.Fatalf("the next command: %v", err)
		}
	}

	// timed has a command end by its time, by which a busy machine has not come so far yet.
	timed := func(what, want string, do func(*host.Cmd) error) {
		t.Helper()
		for timeout := 2 * time.Second; ; timeout *= 4 {
			cmd := command(t.Context())
			cmd.Timeout = timeout
			err := in(what, func() error { return do(cmd) })
			told := errors.Is(err, host.ErrTimedOut) && strings.Contains(err.Error(), want)
			if !told && stopped != 0 { // the next command, which has no limit, would wait for one that is not known to be stopped
				syscall.Kill(stopped, syscall.SIGCONT)
			}
			next()
			if told {
				return
			}
			if !errors.Is(err, host.ErrTimedOut) || timeout > time.Minute {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}

	timed("a running command", "did not answer in time", func(cmd *host.Cmd) error {
		cmd.Stdout = new(strings.Builder) // copied: who has the other end open is not waited for
		if err := cmd.Start(); err != nil {
			return err
		}
		stopEngine()
		return cmd.Wait()
	})

	cmd := command(t.Context())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopEngine()
	in("a kill", func() error { cmd.Signal(syscall.SIGKILL); return cmd.Wait() })
	next()

	timed("a start in time", "while engine", func(cmd *host.Cmd) error {
		stopIdle()
		return cmd.Start()
	})

	stopIdle()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cmd = command(ctx)
	if err := in("a start in a context", cmd.Start); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a start: %v", err)
	}
	next()

	stopIdle()
	cmd = command(t.Context())
	started := make(chan error)
	go func() { started <- cmd.Start() }()
	in("Close", h.Close)
	if err := <-started; !errors.Is(err, host.ErrClosed) {
		t.Errorf("a start while the Host is closed: %v", err)
	}
}

// A start that waits for what nobody can end - here an engine in this process, that
// heeds no context - is left behind, and undoes itself.
func TestStartLeftBehind(t *testing.T) {
	t.Parallel()
	h, entered, release := slowHost(t, false)
	var cmd *host.Cmd
	var out io.ReadCloser
	for timeout := 100 * time.Millisecond; len(entered) == 0; timeout *= 4 { // on a busy machine it is over before the engine is asked
		cmd = h.Command(t.Context(), "", "sleep", "1000")
		cmd.Timeout = timeout
		cmd.Events = func(shared.Event) { t.Error("an event after Start") }
		var err error
		if out, err = cmd.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); !errors.Is(err, host.ErrTimedOut) {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Error("the pipe is open")
	}
	close(release)
	within(t, "Close", func() { h.Close() })
	if err := cmd.Wait(); err == nil {
		t.Error("there is something to wait for")
	}
}

// closedLog is the output of a Logger that must not be used any more.
type closedLog struct {
	mu     sync.Mutex
	closed bool
	lines  int
	late   []string
}

func (l *closedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	if l.closed {
		l.late = append(l.late, string(p))
	}
	return len(p), nil
}

// When Close has returned, nothing is logged any more: the Logger of a test, say, is gone then.
func TestNothingIsLoggedAfterClose(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"running": 0, "killed": syscall.SIGKILL, "hung": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := &closedLog{}
			h, running := withEngine(t, func(o *host.Options) {
				o.Session.OneShot = true
				o.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: output})
			})
			cmd := h.Command(t.Context(), "fast", "sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			engine := running()
			syscall.Kill(engine, signal)
			h.Close()
			output.mu.Lock()
			output.closed = true
			lines := output.lines
			output.mu.Unlock()
			cmd.Wait()
			if !eventually(func() bool { return syscall.Kill(engine, 0) != nil }) {
				t.Error("the engine is still there")
			}
			if lines == 0 {
				t.Error("nothing was logged before")
			}
			output.mu.Lock()
			defer output.mu.Unlock()
			if len(output.late) > 0 {
				t.Errorf("logged after Close: %q", output.late)
			}
		})
	}
}
