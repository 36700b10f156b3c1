package native

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// bench is a sandbox with Prepare, in a workspace. Its tests are not parallel: inits are found
// by their ancestor, which is this process for all tests.
type bench struct {
	inside.Bench
	t *testing.T
}

// newBench opens one: hidden and readOnly are files of the workspace.
func newBench(t *testing.T, change func(*shared.Spec)) *bench {
	t.Helper()
	b := &bench{t: t, Bench: inside.Bench{T: t, Dir: t.TempDir(), Inits: inits}}
	for _, name := range []string{"hidden", "readonly"} {
		b.write(name, name)
	}
	spec := shared.Spec{
		Sandbox: "bench", Prepare: true, Home: "/home/u",
		Table: []shared.Entry{
			{Path: b.Dir, Source: b.Dir, Access: shared.ReadWrite, Why: "workspace"},
			{Path: b.path("hidden"), Access: shared.Hidden, Why: "deny_paths[0]"},
			{Path: b.path("readonly"), Source: b.path("readonly"), Access: shared.ReadOnly, Why: "bind_paths[0]"},
		},
	}
	if change != nil {
		change(&spec)
	}
	var err error
	if b.Sandbox, err = need(t).Open(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Sandbox.Close(t.Context()) })
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.Dir, name) }

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

// inits are what this process's holders have started.
func inits() (list []int) {
	for _, holder := range proc.Children(os.Getpid()) {
		list = append(list, proc.Children(holder)...)
	}
	return list
}

func TestPrepared(t *testing.T) {
	b := newBench(t, nil)
	const look = "ls -A /tmp /home/u; cat /proc/[0-9]*/comm; touch /tmp/left /home/u/left; sleep 60 & cat readonly hidden 2>&1; echo x > readonly"
	b.Run(look)
	for range 4 {
		out := b.RunPrepared(look)
		if strings.Contains(out, "left") || strings.Contains(out, "sleep") || !strings.Contains(out, "sbxhost-init") {
			t.Errorf("something of another command is there:\n%s", out)
		}
		if !strings.Contains(out, "readonly: Read-only file system") || strings.Contains(out, "hidden\n") {
			t.Errorf("what is protected or hidden is not: %s", out)
		}
	}
}

// No thread of what waits has a capability, but for those that it makes the command's namespaces with if
// there is more than one user in its own.
func TestPreparedHasGivenUp(t *testing.T) {
	b := newBench(t, nil)
	b.Run("true")
	users, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", b.Waits))
	if err != nil {
		t.Fatal(err)
	}
	want := "00000000800000c0"
	if f := strings.Fields(string(users)); len(f) == 3 && f[2] == "1" && f[1] != "0" {
		want = "0000000000000000"
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.Waits))
	if err != nil || len(threads) == 0 {
		t.Fatal("no threads", err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil || !strings.Contains(string(status), "\nCapPrm:\t"+want+"\n") {
			t.Errorf("a thread of what waits for a command has other capabilities: %v\n%s", err, status)
		}
	}
}

// What is mounted on a file is gone when somebody renames another one over it, in a sandbox
// that waits, too. Before the next command it is back.
func TestPreparedShowsReplacedFiles(t *testing.T) {
	for name, change := range map[string]func(*shared.Spec){
		"alone":        nil,
		"in a session": func(s *shared.Spec) { s.Session = shared.Session{ID: "replaced", Dir: t.TempDir()} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, change)
			b.Run("true")
			for i := range 3 {
				b.replace("hidden", "a secret")
				b.replace("readonly", "text "+strconv.Itoa(i))
				out := b.RunPrepared("cat hidden; cat readonly; echo x 2>&1 > readonly; cat readonly")
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
	b.Run("true")
	b.replace("readonly", "another text")
	if out := b.Run("cat readonly /tmp/elsewhere"); out != "another textanother text" {
		t.Errorf("after a file was replaced: %q", out)
	}
}

// A directory that commands can write to was replaced, where what waits has rules for the former one.
func TestPreparedWritesToWhatIsThere(t *testing.T) {
	writable, err := os.MkdirTemp("/var/tmp", "writable") // commands have memory at /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(writable) })
	b := newBench(t, func(s *shared.Spec) {
		s.Filesystem, s.Home = shared.FilesystemHost, t.TempDir()
		s.Table = append(s.Table, shared.Entry{Path: writable, Source: writable, Access: shared.ReadWrite, Why: "writable_roots[0]"})
	})
	b.Run("true")
	if err := errors.Join(os.Remove(writable), os.Mkdir(writable, 0o755)); err != nil {
		t.Fatal(err)
	}
	if out := b.Run("echo text > " + writable + "/file; cat " + writable + "/file"); out != "text" {
		t.Errorf("after a writable directory was replaced: %q", out)
	}
}

// A sandbox of another tree is made anew.
func TestPreparedIsReplaced(t *testing.T) {
	b := newBench(t, nil)
	b.Run("true")
	aside := b.Dir + ".aside"
	if err := os.Rename(b.Dir, aside); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(aside) })
	if err := os.Mkdir(b.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.write("hidden", "a secret")
	b.write("readonly", "another text")
	if out := b.Run("cat hidden; cat readonly; ls"); strings.Contains(out, "secret") || !strings.Contains(out, "another text") {
		t.Errorf("in a new workspace of the same name: %q", out)
	}
	if out := b.RunPrepared("cat readonly"); out != "another text" {
		t.Errorf("then: %q", out)
	}
}

// A limit holds the command alone, in what waits as well.
func TestPreparedIsLimited(t *testing.T) {
	b := newBench(t, func(s *shared.Spec) { s.Limits = shared.Limits{PIDs: 20, Memory: 64 << 20, BestEffort: true} })
	// The shell that makes them ends by itself, at the first that is refused;
	// in a pipeline they could take the place of the pipeline's other end.
	const many = "(i=0; while [ $i -lt 60 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done) 2>&1"
	b.Run("true")
	for range 2 {
		if out := b.RunPrepared(many + "; echo goes on"); !strings.Contains(out, "annot fork") || !strings.Contains(out, "goes on") {
			t.Errorf("60 processes where 20 are allowed: %q", out)
		}
	}
}

// Somebody kills what waits: the next command has another.
func TestPreparedIsKilled(t *testing.T) {
	b := newBench(t, nil)
	for range 5 {
		b.Run("true")
		end := b.endOf(b.Waits)
		if err := unix.PidfdSendSignal(int(end.Fd()), unix.SIGKILL, nil, 0); err != nil {
			t.Fatal(err)
		}
		b.await(end)
		if out := b.Run("echo there"); out != "there" {
			t.Errorf("after the spare was killed: %q", out)
		}
	}
	end := b.endOf(b.Waits)
	b.Sandbox.Close(t.Context())
	b.await(end)
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
	if got := b.Run(script); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for range 3 {
		if got := b.RunPrepared(script); got != want {
			t.Errorf("prepared: %q, want %q", got, want)
		}
	}
}

// The host removes what holds the place of a missing path when a command has ended, while the next
// one's sandbox is made, or moves it away. When something holds it again it is protected there, at the
// top of a bind as well.
func TestPreparedWhileAPlaceIsNotHeld(t *testing.T) {
	for name, c := range map[string]struct {
		away, back func(held, aside string) error
	}{
		"moved":   {os.Rename, func(held, aside string) error { return os.Rename(aside, held) }},
		"removed": {func(held, _ string) error { return os.Remove(held) }, func(held, _ string) error { return os.Mkdir(held, 0o755) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(s *shared.Spec) {
				held := filepath.Join(s.Table[0].Path, "held")
				if err := os.Mkdir(held, 0o755); err != nil {
					t.Fatal(err)
				}
				s.Table = append(s.Table, shared.Entry{Path: held, Source: held, Access: shared.ReadOnly, Why: "protected"})
			})
			aside := filepath.Join(t.TempDir(), "held")
			by, end := b.Start("true")
			for range 3 {
				if err := c.away(b.path("held"), aside); err != nil {
					t.Fatal(err)
				}
				end()
				b.Next(by)
				if err := c.back(b.path("held"), aside); err != nil {
					t.Fatal(err)
				}
				if out := b.RunPrepared("touch held/file 2>&1; mv held gone 2>&1; ls -d held/file gone 2>&1"); strings.Count(out, "\n") != 3 ||
					!strings.Contains(out, "Read-only file system") || !strings.Contains(out, "Device or resource busy") {
					t.Errorf("a place that is held again: %s", out)
				}
				by, end = b.Start("true")
			}
			end()
		})
	}
}

// The host moves a directory away under what a sandbox has for itself, before that is made or while it
// waits. What the holder puts back on the way to it covers the rest.
func TestPreparedKeepsItsOwn(t *testing.T) {
	for name, access := range map[string]shared.Access{"private": shared.Private, "overlay": shared.Overlay} {
		for _, own := range []string{"own", "deep/own"} {
			for _, waits := range []bool{false, true} {
				t.Run(fmt.Sprint(name, own, waits), func(t *testing.T) {
					b := newBench(t, func(s *shared.Spec) {
						s.Session.Dir = sessionDir(t)
						e := shared.Entry{Path: filepath.Join(s.Table[0].Path, own), Access: access, Why: "bind_paths[1]"}
						if access == shared.Overlay {
							e.Source = e.Path
						}
						if err := os.MkdirAll(e.Path, 0o755); err != nil {
							t.Fatal(err)
						}
						s.Table = append(s.Table, e)
					})
					by, end := b.Start("true")
					if waits {
						end()
						b.Next(by)
					}
					top, _, _ := strings.Cut(own, "/")
					if err := errors.Join(os.Rename(b.path(top), b.path("aside")), os.MkdirAll(b.path(own), 0o755)); err != nil {
						t.Fatal(err)
					}
					if !waits {
						end()
						b.Next(by)
					}
					b.Run("echo text > " + own + "/file")
					if _, err := os.Stat(b.path(own + "/file")); err == nil {
						t.Error("the command has written to the host")
					}
				})
			}
		}
	}
}

// What is put back again and again is there once, however many directories lead to it.
func TestPreparedHasEachMountOnce(t *testing.T) {
	const deep = "a/b/c/d/e/f/g/h"
	b := newBench(t, func(s *shared.Spec) {
		held := filepath.Join(s.Table[0].Path, deep)
		if err := os.MkdirAll(held, 0o755); err != nil {
			t.Fatal(err)
		}
		s.Table = append(s.Table, shared.Entry{Path: held, Source: held, Access: shared.ReadOnly, Why: "protected"})
	})
	want := b.Run("grep -c . /proc/self/mountinfo")
	for range 3 {
		if err := errors.Join(os.RemoveAll(b.path("a")), os.MkdirAll(b.path(deep), 0o755)); err != nil {
			t.Fatal(err)
		}
		if got := b.RunPrepared("grep -c . /proc/self/mountinfo"); got != want {
			t.Errorf("%s mounts, before %s", got, want)
		}
	}
}

// What somebody moved away is at its new path as the definition says, not as it was at the former one.
func TestPreparedLeavesNothingWhereItWasMoved(t *testing.T) {
	b := newBench(t, func(s *shared.Spec) {
		held := filepath.Join(s.Table[0].Path, "held")
		if err := os.Mkdir(held, 0o755); err != nil {
			t.Fatal(err)
		}
		s.Table = append(s.Table, shared.Entry{Path: held, Source: held, Access: shared.ReadOnly, Why: "protected"})
	})
	b.Run("true")
	for i := range 3 {
		aside := "aside" + strconv.Itoa(i)
		if err := errors.Join(os.Rename(b.path("held"), b.path(aside)), os.Mkdir(b.path("held"), 0o755)); err != nil {
			t.Fatal(err)
		}
		out := b.Run("touch " + aside + "/file; touch held/file 2>&1; grep -c /aside /proc/self/mountinfo")
		if !strings.HasSuffix(out, "Read-only file system\n0") || strings.Count(out, "\n") != 1 {
			t.Errorf("after a directory was moved: %q", out)
		}
	}
}
