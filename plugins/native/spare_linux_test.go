package native

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/proc"
)

// bench is a sandbox with Prepare, in a workspace. Its tests are not parallel: inits are found
// by their ancestor, which is this process for all tests.
type bench struct {
	t       *testing.T
	ws      string
	sandbox shared.Sandbox
}

// newBench opens one: hidden and readOnly are files of the workspace.
func newBench(t *testing.T, change func(*shared.Spec)) *bench {
	t.Helper()
	b := &bench{t: t, ws: t.TempDir()}
	for _, name := range []string{"hidden", "readonly"} {
		b.write(name, name)
	}
	spec := shared.Spec{
		Sandbox: "bench", Prepare: true, Home: "/home/u",
		Table: []shared.Entry{
			{Path: b.ws, Source: b.ws, Access: shared.ReadWrite, Why: "workspace"},
			{Path: b.path("hidden"), Access: shared.Hidden, Why: "deny_paths[0]"},
			{Path: b.path("readonly"), Source: b.path("readonly"), Access: shared.ReadOnly, Why: "bind_paths[0]"},
		},
	}
	if change != nil {
		change(&spec)
	}
	var err error
	if b.sandbox, err = need(t).Open(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.sandbox.Close(t.Context()) })
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.ws, name) }

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// replace renames a new file over one, which takes away what is mounted on that.
func (b *bench) replace(name, text string) {
	b.t.Helper()
	b.write("new", text)
	if err := os.Rename(b.path("new"), b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(script string) string {
	b.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	p, err := b.sandbox.Start(b.t.Context(), shared.Command{Args: []string{"/bin/sh", "-c", script}, Dir: b.ws, Env: []string{"PATH=/usr/bin:/bin", "HOME=/home/u"}}, shared.Stdio{Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	out.ReadFrom(r)
	if _, err := p.Wait(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// tick is the unit of times in /proc/PID/stat.
const tick = 10 * time.Millisecond

// ticks is the age of the machine in that unit.
func ticks(t *testing.T) int {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	return int(now.Nano() / tick.Nanoseconds())
}

// runPrepared runs a command, and fails if its sandbox is never older than the call: what was found
// waiting may have been that of a command which had just ended.
func (b *bench) runPrepared(script string) string {
	b.t.Helper()
	for range 10 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(b.waiting()) + "/stat")
		if err != nil {
			continue
		}
		prepared := strings.Fields(string(stat))[21]
		if born, err := strconv.Atoi(prepared); err != nil {
			b.t.Fatal(err)
		} else if wait := born + 2 - ticks(b.t); wait > 0 {
			time.Sleep(time.Duration(wait) * tick) // a sandbox that is made from now on has another time of birth
		}
		out := b.run(script + "\necho; cut -d' ' -f22 /proc/1/stat")
		at := strings.LastIndexByte(out, '\n')
		if out[at+1:] == prepared {
			return strings.TrimSpace(out[:max(at, 0)])
		}
	}
	b.t.Error("no command's sandbox was made before it")
	return ""
}

func TestPrepared(t *testing.T) {
	b := newBench(t, nil)
	const look = "ls -A /tmp /home/u; cat /proc/[0-9]*/comm; touch /tmp/left /home/u/left; sleep 60 & cat readonly hidden 2>&1; echo x > readonly"
	b.run(look)
	for range 4 {
		out := b.runPrepared(look)
		if strings.Contains(out, "left") || strings.Contains(out, "sleep") || !strings.Contains(out, "sbxhost-init") {
			t.Errorf("something of another command is there:\n%s", out)
		}
		if !strings.Contains(out, "readonly: Read-only file system") || strings.Contains(out, "hidden\n") {
			t.Errorf("what is protected or hidden is not: %s", out)
		}
	}
}

// What waits has given up its capabilities: the command need not wait for that.
func TestPreparedHasGivenUp(t *testing.T) {
	b := newBench(t, nil)
	b.run("true")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.waiting()))
	if err != nil || !strings.Contains(string(status), "\nCapPrm:\t0000000000000000\n") {
		t.Errorf("what waits for a command has capabilities: %v\n%s", err, status)
	}
}

// What is mounted on a file is gone when somebody renames another one over it, in a sandbox
// that waits, too: the next command has another.
func TestPreparedShowsReplacedFiles(t *testing.T) {
	for name, change := range map[string]func(*shared.Spec){
		"alone":        nil,
		"in a session": func(s *shared.Spec) { s.Session = shared.Session{ID: "replaced", Dir: t.TempDir()} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, change)
			b.run("true")
			for i := range 3 {
				b.waiting()
				b.replace("hidden", "a secret")
				b.replace("readonly", "text "+strconv.Itoa(i))
				out := b.run("cat hidden; cat readonly; echo x 2>&1 > readonly; cat readonly")
				if strings.Contains(out, "secret") || strings.Count(out, "text "+strconv.Itoa(i)) != 2 {
					t.Errorf("after a file was replaced the command sees %q", out)
				}
			}
			if got, err := os.ReadFile(b.path("readonly")); err != nil || string(got) != "text 2" {
				t.Errorf("%q, %v is in the file that commands cannot write", got, err)
			}
		})
	}
}

// A file that is shown by itself, in a place that the host does not have: the mount stays when
// the file is replaced, and shows the former one.
func TestPreparedShowsWhatIsThere(t *testing.T) {
	b := newBench(t, func(s *shared.Spec) {
		s.Table = append(s.Table, shared.Entry{Path: "/tmp/elsewhere", Source: s.Table[2].Source, Access: shared.ReadOnly, Why: "bind_paths[1]"})
	})
	b.run("true")
	b.replace("readonly", "another text")
	if out := b.run("cat readonly /tmp/elsewhere"); out != "another textanother text" {
		t.Errorf("after a file was replaced: %q", out)
	}
}

// A sandbox of another tree is made anew.
func TestPreparedIsReplaced(t *testing.T) {
	b := newBench(t, nil)
	b.run("true")
	end := b.endOf(b.waiting())
	aside := b.ws + ".aside"
	if err := os.Rename(b.ws, aside); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(aside) })
	if err := os.Mkdir(b.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	b.write("hidden", "a secret")
	b.write("readonly", "another text")
	if out := b.run("cat hidden; cat readonly; ls"); strings.Contains(out, "secret") || !strings.Contains(out, "another text") {
		t.Errorf("in a new workspace of the same name: %q", out)
	}
	b.await(end) // which was not that sandbox
	if out := b.runPrepared("cat readonly"); out != "another text" {
		t.Errorf("then: %q", out)
	}
}

// A limit holds the command alone, in what waits as well.
func TestPreparedIsLimited(t *testing.T) {
	b := newBench(t, func(s *shared.Spec) { s.Limits = shared.Limits{PIDs: 20, Memory: 64 << 20, BestEffort: true} })
	const many = "(i=0; while [ $i -lt 60 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done) 2>&1 | tail -n 1"
	b.run("true")
	for range 2 {
		if out := b.runPrepared(many + "; echo; echo goes on"); !strings.Contains(out, "annot fork") || !strings.Contains(out, "goes on") {
			t.Errorf("60 processes where 20 are allowed: %q", out)
		}
	}
}

// Somebody kills what waits: the next command has another.
func TestPreparedIsKilled(t *testing.T) {
	b := newBench(t, nil)
	for range 5 {
		b.run("true")
		end := b.endOf(b.waiting())
		if err := unix.PidfdSendSignal(int(end.Fd()), unix.SIGKILL, nil, 0); err != nil {
			t.Fatal(err)
		}
		b.await(end)
		if out := b.run("echo there"); out != "there" {
			t.Errorf("after the spare was killed: %q", out)
		}
	}
	end := b.endOf(b.waiting())
	b.sandbox.Close(t.Context())
	b.await(end)
}

// waiting gives the init that waits for a command, of all that holders have started.
func (b *bench) waiting() int {
	b.t.Helper()
	return inside.Waiting(b.t, func() (inits []int) {
		for _, holder := range proc.Children(os.Getpid()) {
			inits = append(inits, proc.Children(holder)...)
		}
		return inits
	})
}

// endOf is a descriptor of a process, for await.
func (b *bench) endOf(pid int) *os.File {
	b.t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	end := os.NewFile(uintptr(fd), "pidfd")
	b.t.Cleanup(func() { end.Close() })
	return end
}

// await waits for the process to end.
func (b *bench) await(end *os.File) {
	b.t.Helper()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(end.Fd()), Events: unix.POLLIN}}, 60_000); n != 1 {
		b.t.Fatalf("the process does not end: %v", err)
	}
}

// A sandbox that has waited has a network and a gate of its own, too.
func TestPreparedHasAGate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("the host"))
			c.Close()
		}
	}()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	b := newBench(t, func(spec *shared.Spec) {
		spec.Network = shared.Network{Mode: shared.NetworkNames, HostPorts: []uint16{port}}
	})
	script := fmt.Sprintf(`cat /etc/resolv.conf; getent hosts refused.example; bash -c 'exec 3<>/dev/tcp/localhost/%d; cat <&3'`, port)
	const want = "nameserver 198.18.0.1\nthe host"
	if got := b.run(script); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for range 3 {
		if got := b.runPrepared(script); got != want {
			t.Errorf("prepared: %q, want %q", got, want)
		}
	}
}

// The host moves what holds the place of a missing path away when a command has ended, while the
// next one's sandbox is made. When it is back it is protected there, at the top of a bind as well.
func TestPreparedWhileAPlaceIsNotHeld(t *testing.T) {
	b := newBench(t, func(s *shared.Spec) {
		held := filepath.Join(s.Table[0].Path, "held")
		if err := os.Mkdir(held, 0o755); err != nil {
			t.Fatal(err)
		}
		s.Table = append(s.Table, shared.Entry{Path: held, Source: held, Access: shared.ReadOnly, Why: "protected"})
	})
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(b.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := b.sandbox.Start(t.Context(), shared.Command{Args: []string{"/bin/sh", "-c", "read x < fifo"}, Dir: b.ws, Env: []string{"PATH=/usr/bin:/bin"}}, shared.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(b.path("fifo"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(t.TempDir(), "held")
	move(b.path("held"), away)
	fifo.Close()
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.waiting()
	move(away, b.path("held"))
	if out := b.runPrepared("touch held/file 2>&1; mv held gone 2>&1; ls -d held/file gone 2>&1"); strings.Count(out, "\n") != 3 ||
		!strings.Contains(out, "Read-only file system") || !strings.Contains(out, "Device or resource busy") {
		t.Errorf("a place that is held again: %s", out)
	}
}
