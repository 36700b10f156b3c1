package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// engineArg makes the test binary an engine's process.
const engineArg = "engine-for-test"

// engineMain runs the command that its standard input tells, one a line, in a
// session with an overlay, and says on its standard output when each has started.
// It is given the session's directory and the overlay's lower one.
func engineMain(args []string) int {
	ctx := context.Background()
	spec := shared.Spec{
		Session: shared.Session{ID: "named", Dir: args[0]},
		Table:   []shared.Entry{{Source: args[1], Path: "/cache", Access: shared.Overlay, Why: "workspace.caches"}},
	}
	sandbox, err := New().Open(ctx, spec)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		p, err := sandbox.Start(ctx, shared.Command{Args: []string{"/bin/sh", "-c", lines.Text()}, Dir: "/", Env: inside.Env}, shared.Stdio{Stdout: os.Stderr})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if !strings.Contains(lines.Text(), "sleep") {
			p.Wait(ctx)
		}
		fmt.Println("up")
	}
	sandbox.Close(ctx)
	return 0
}

// engineProcess is an engine in a process of its own.
type engineProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	outputs *os.File // of all its commands; at its end when the last is gone
}

func startEngine(t *testing.T, session, lower string) *engineProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w := inside.Pipe(t)
	p := &engineProcess{t: t, cmd: exec.Command(exe, engineArg, session, lower), outputs: r}
	p.cmd.Stderr = w
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	return p
}

func (p *engineProcess) run(text string) {
	p.t.Helper()
	fmt.Fprintln(p.in, text)
	if line, err := p.out.ReadString('\n'); line != "up\n" {
		p.t.Fatalf("%q, %v", line, err)
	}
}

// holder is its holder's number; 0 if it has none.
func (p *engineProcess) holder() int {
	for _, pid := range proc.Children(p.cmd.Process.Pid) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "sbxhost-holder\n" {
			return pid
		}
	}
	return 0
}

// rest is what its commands have written and the tests have not read, once all
// of them are gone.
func (p *engineProcess) rest() string {
	p.t.Helper()
	p.outputs.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(p.outputs)
	if err != nil {
		p.t.Errorf("a command of a killed engine lives on: %v", err)
	}
	return string(b)
}

// free waits until a session has no holder.
func free(t *testing.T, session string) {
	t.Helper()
	dir := filepath.Join(session, "holder", "u"+strconv.Itoa(os.Geteuid()))
	fd, err := unix.Open(dir+"/lock", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	gone := make(chan error, 1)
	go func() { gone <- unix.Flock(fd, unix.LOCK_EX) }()
	select {
	case err := <-gone:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the holder lives on")
	}
}

// The session of one process is refused to another, which finds it as the first one left it.
func TestTwoProcessesInOneSession(t *testing.T) {
	t.Parallel()
	need(t)
	session, lower := sessionDir(t), inside.Workspace(t)
	one := startEngine(t, session, lower)
	one.run("echo one >> /cache/f")
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error)
	go func() {
		_, err := New().Open(ctx, shared.Spec{Session: shared.Session{ID: "named", Dir: session}})
		refused <- err
	}()
	one.run("exec sleep 1000")
	cancel()
	if err := <-refused; !errors.Is(err, context.Canceled) {
		t.Errorf("while it is used: %v", err)
	}
	one.cmd.Process.Kill()
	if more := one.rest(); more != "" {
		t.Errorf("%q", more)
	}
	two := startEngine(t, session, lower)
	two.run("echo two >> /cache/f; cat /cache/f")
	two.cmd.Process.Kill()
	if got := two.rest(); got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
	free(t, session)
}

// Whatever is killed, and when, nothing is left and the session goes on.
func TestKilledAtEveryMoment(t *testing.T) {
	t.Parallel()
	need(t)
	session, lower := sessionDir(t), inside.Workspace(t)
	victims := map[string]func(*engineProcess, int){
		"engine": func(p *engineProcess, _ int) { p.cmd.Process.Kill() },
		"holder": func(_ *engineProcess, holder int) { syscall.Kill(holder, syscall.SIGKILL) },
	}
	var killed []*engineProcess
	for name, kill := range victims {
		for delay := time.Duration(0); delay < 20*time.Millisecond; delay += 1300 * time.Microsecond {
			p := startEngine(t, session, lower)
			fmt.Fprintln(p.in, "exec sleep 1000")
			holder := 0
			for deadline := time.Now().Add(time.Minute); name == "holder" && holder == 0; holder = p.holder() {
				if time.Now().After(deadline) {
					p.cmd.Process.Kill()
					said, _ := io.ReadAll(p.out)
					t.Fatalf("there is no holder: %q, %q", said, p.rest())
				}
				runtime.Gosched()
			}
			<-time.After(delay) // the moment is what is tried
			kill(p, holder)
			p.in.Close()
			p.cmd.Process.Kill()
			if name == "holder" {
				// With both of them nobody is left to see to a launcher that was just
				// being born. The next holder does, if it is in the way.
				killed = append(killed, p)
			} else if got := p.rest(); got != "" {
				t.Errorf("%s, %v: %q", name, delay, got)
			}
		}
	}
	p := startEngine(t, session, lower)
	p.run("echo goes on > /cache/f; cat /cache/f")
	p.in.Close()
	if got := p.rest(); got != "goes on\n" {
		t.Errorf("%q", got)
	}
	for _, p := range killed {
		if got := p.rest(); got != "" {
			t.Errorf("%q", got)
		}
	}
	free(t, session)
}
