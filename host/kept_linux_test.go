package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/shared"
)

// keptHost is a Host whose sandbox "dev" keeps processes.
func keptHost(t *testing.T, change func(*host.Options)) *host.Host {
	t.Helper()
	return newHost(t, func(o *host.Options) {
		o.Sandboxes = map[string]host.Definition{"dev": {Engine: "native", Session: host.SessionDefinition{Processes: true}}}
		o.Session = host.SessionOptions{Dir: t.TempDir() + "/s"}
		if change != nil {
			change(o)
		}
	})
}

// syncBuffer is one that a test reads while others write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// What a command leaves running goes on, and what it writes then goes to Background: the caller's own
// streams end with the command.
func TestKeptBackground(t *testing.T) {
	t.Parallel()
	h := keptHost(t, nil)
	var stdout, late syncBuffer
	cmd := h.Command(t.Context(), "dev", "sh", "-c", "mkfifo /tmp/f; (read line </tmp/f; echo late $line; echo err >&2; exec sleep 1000) & echo first")
	cmd.Stdout, cmd.Stderr, cmd.Background = &stdout, &stdout, &late
	must(t, cmd.Run())
	if got := stdout.String(); got != "first\n" {
		t.Errorf("its own: %q", got)
	}
	output(t, h, "dev", "echo hello >/tmp/f")
	for begin := time.Now(); late.String() != "late hello\nerr\n"; time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("later: %q", late.String())
		}
	}
	if got := stdout.String(); got != "first\n" {
		t.Errorf("its own, after its end: %q", got)
	}
	list, err := h.Processes()
	if err != nil || len(list) == 0 || !h.HasProcesses() {
		t.Errorf("%v, %v", list, err)
	}
	must(t, h.EndProcesses(t.Context()))
	if h.HasProcesses() {
		t.Error("some are left")
	}
	if out := output(t, h, "dev", "test ! -e /proc/1/x; ls /proc | grep -c '^[0-9]'"); out == "" {
		t.Error("no session can be begun again")
	}
}

// A session has one definition, for as long as something may run in it.
func TestKeptHasOneDefinition(t *testing.T) {
	t.Parallel()
	h := keptHost(t, func(o *host.Options) {
		o.Sandboxes["other"] = host.Definition{Engine: "native", Session: host.SessionDefinition{Processes: true}, Network: host.Network{Host: true}}
		o.Sandboxes["alone"] = host.Definition{Engine: "native"}
		o.Sandboxes["bwrap"] = host.Definition{Engine: "bwrap", Session: host.SessionDefinition{Processes: true}}
	})
	if err := h.Command(t.Context(), "bwrap", "true").Run(); !errors.Is(err, shared.ErrUnsupported) || !strings.Contains(err.Error(), "session.processes") {
		t.Errorf("an engine that keeps none: %v", err)
	}
	output(t, h, "dev", "sleep 1000 </dev/null >/dev/null 2>&1 &")
	refused := func(what, attribute string, cmd *host.Cmd) {
		t.Helper()
		e, ok := errors.AsType[*shared.Error](cmd.Run())
		if !ok || e.Attribute != attribute {
			t.Errorf("%s: %v, want one about %s", what, e, attribute)
		}
	}
	refused("another sandbox", "sandbox", h.Command(t.Context(), "other", "true"))
	cmd := h.Command(t.Context(), "dev", "true")
	cmd.Network = &host.Network{Host: true}
	refused("another network", "network", cmd)
	cmd = h.Command(t.Context(), "dev", "true")
	cmd.BindPaths = []host.Bind{{Host: "/usr/share"}}
	refused("another bind", "bind_paths", cmd)
	if out := output(t, h, "alone", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, "sleep 1000") {
		t.Errorf("a command that shares no processes sees %q", out)
	}
	must(t, h.EndProcesses(t.Context()))
	output(t, h, "other", "true")
}

// The command after the loss of an idle session's engine is told that its processes are gone.
func TestKeptEngineLost(t *testing.T) {
	t.Parallel()
	h, engine := withEngine(t, func(o *host.Options) {
		o.Sandboxes = map[string]host.Definition{"dev": {Engine: "native", Session: host.SessionDefinition{Processes: true}}}
		o.Session = host.SessionOptions{Dir: t.TempDir() + "/s"}
	})
	told := func(commandline string) (notes []string) {
		t.Helper()
		cmd := h.Command(t.Context(), "dev", "sh", "-c", commandline)
		cmd.Events = func(e shared.Event) {
			if strings.HasPrefix(e.Message, "the session's processes ended, and new ones start: ") {
				notes = append(notes, e.Message)
			}
		}
		must(t, cmd.Run())
		return notes
	}
	if notes := told("sleep 1000 </dev/null >/dev/null 2>&1 &"); len(notes) > 0 {
		t.Errorf("the first command: %q", notes)
	}
	killed := engine()
	must(t, syscall.Kill(killed, syscall.SIGKILL))
	if !eventually(func() bool { return syscall.Kill(killed, 0) != nil }) {
		t.Fatal("the engine does not end")
	}
	if notes := told("true"); len(notes) != 1 || !strings.Contains(notes[0], "signal: killed") {
		t.Errorf("after the loss: %q", notes)
	}
	if notes := told("true"); len(notes) > 0 {
		t.Errorf("the command after that: %q", notes)
	}
}

// Processes end when no command comes any more.
func TestKeptIdle(t *testing.T) {
	t.Parallel()
	h := keptHost(t, func(o *host.Options) {
		d := o.Sandboxes["dev"]
		d.Session.Idle = 300 * time.Millisecond
		o.Sandboxes["dev"] = d
	})
	output(t, h, "dev", "sleep 1000 </dev/null >/dev/null 2>&1 &")
	for begin := time.Now(); h.HasProcesses(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("they are there")
		}
	}
	if out := output(t, h, "dev", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, "sleep 1000 ") {
		t.Errorf("what ran is there: %q", out)
	}
}

// Of two programs, one has the processes of a session.
func TestKeptByOneProgram(t *testing.T) {
	t.Parallel()
	base, root := t.TempDir()+"/s", t.TempDir()
	both := func(o *host.Options) {
		o.Session, o.Workspace.Root, o.Dir = host.SessionOptions{Dir: base, Name: "dev"}, root, root
	}
	a, b := keptHost(t, both), keptHost(t, both)
	output(t, a, "dev", "true")
	if err := b.Command(t.Context(), "dev", "true").Run(); !errors.Is(err, host.ErrSessionInUse) {
		t.Errorf("the second: %v", err)
	}
	must(t, a.Close())
	output(t, b, "dev", "true")
}

// What an editor or git on the host does to a file that is hidden or protected, by renaming another
// over it, opens that file to nothing that runs.
func TestKeptCovers(t *testing.T) {
	t.Parallel()
	h := keptHost(t, func(o *host.Options) {
		o.Sandboxes["dev"] = host.Definition{Engine: "native", Session: host.SessionDefinition{Processes: true}, DenyPaths: []string{"secret"}, ProtectPaths: []string{"dir/settings"}}
		must(t, os.MkdirAll(o.Dir+"/dir", 0o755), os.WriteFile(o.Dir+"/secret", []byte("old"), 0o644), os.WriteFile(o.Dir+"/dir/settings", []byte("old\n"), 0o644))
	})
	root := h.Workspace().Root()
	// One that runs all the time tells what it sees whenever it is asked.
	// What reads the requests has the pipe open all the time: one that was written just before it closed would be lost.
	serve := h.Command(t.Context(), "dev", "sh", "-c", `mkfifo /tmp/ask; (exec 3<>/tmp/ask; while read q <&3; do { cat secret; echo mine >dir/settings; cat dir/settings; } >/tmp/answer.$q 2>&1; mv /tmp/answer.$q /tmp/answered.$q; done) </dev/null >/dev/null 2>&1 &`)
	must(t, serve.Run())
	asked := 0
	ask := func() string {
		asked++
		return output(t, h, "dev", fmt.Sprintf("echo %d >/tmp/ask; until cat /tmp/answered.%d 2>/dev/null; do sleep 0.01; done", asked, asked))
	}
	if got := ask(); !strings.HasSuffix(got, "old\n") || strings.Contains(got, "mine") {
		t.Errorf("at first: %q", got)
	}
	replace := func(path, text string) {
		must(t, os.WriteFile(root+"/new", []byte(text), 0o644), os.Rename(root+"/new", root+"/"+path))
	}
	for i := range 3 {
		replace("secret", "readable")
		replace("dir/settings", fmt.Sprintf("new %d\n", i))
		watch := h.Command(t.Context(), "dev", "sleep", "0.2")
		var told []string
		watch.Events = func(e shared.Event) { told = append(told, e.Message) }
		must(t, watch.Run())
		if got := ask(); !strings.HasSuffix(got, fmt.Sprintf("new %d\n", i)) || strings.Contains(got, "readable") || strings.Contains(got, "mine") {
			t.Errorf("replaced %d times: %q", i+1, got)
		}
		if all := strings.Join(told, "\n"); !strings.Contains(all, root+"/secret was replaced on the host") || !strings.Contains(all, root+"/dir/settings was replaced on the host") {
			t.Errorf("told: %q", told)
		}
	}
	// Moved away, and written anew.
	must(t, os.Rename(root+"/secret", root+"/moved"), os.WriteFile(root+"/secret", []byte("readable"), 0o644))
	must(t, h.Command(t.Context(), "dev", "sleep", "0.2").Run())
	if got := ask(); strings.Contains(got, "readable") {
		t.Errorf("written anew: %q", got)
	}
	// Removed with its directory, which is made anew before it.
	told := make(chan string, 16)
	cmd := h.Command(t.Context(), "dev", "sleep", "1000")
	cmd.Events = func(e shared.Event) { told <- e.Message }
	must(t, cmd.Start())
	covered := func(path string) {
		for {
			select {
			case message := <-told:
				if strings.Contains(message, root+path+" was replaced on the host") {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s is not covered", path)
			}
		}
	}
	must(t, os.RemoveAll(root+"/dir"), os.Mkdir(root+"/dir", 0o755))
	replace("secret", "readable")
	covered("/secret") // and so what happened before has been looked at
	replace("dir/settings", "again\n")
	covered("/dir/settings")
	must(t, cmd.Signal(syscall.SIGKILL))
	cmd.Wait()
	if got := ask(); !strings.HasSuffix(got, "again\n") || strings.Contains(got, "mine") {
		t.Errorf("removed with its directory: %q", got)
	}
}

// A command can use up what its user may watch. That a directory which somebody replaced is then not
// watched is told.
func TestKeptCoversUnwatched(t *testing.T) {
	const inside, watches = "HOST_TEST_WATCHES", "/proc/sys/user/max_inotify_watches"
	if os.Getenv(inside) == "" { // the bound is a namespace's own
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestKeptCoversUnwatched$", "-test.v")
		uid, gid := os.Geteuid(), os.Getegid()
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	h := keptHost(t, func(o *host.Options) {
		o.Sandboxes["dev"] = host.Definition{Engine: "native", Session: host.SessionDefinition{Processes: true}, DenyPaths: []string{"dir/secret"}}
		must(t, os.Mkdir(o.Dir+"/dir", 0o755), os.WriteFile(o.Dir+"/dir/secret", nil, 0o644))
	})
	root := h.Workspace().Root()
	told := make(chan string, 16)
	cmd := h.Command(t.Context(), "dev", "sleep", "1000")
	cmd.Events = func(e shared.Event) { told <- e.Message }
	must(t, cmd.Start())
	must(t, os.WriteFile(watches, []byte("1"), 0), os.Mkdir(root+"/new", 0o755), os.WriteFile(root+"/new/secret", nil, 0o644),
		os.Rename(root+"/dir", root+"/old"), os.Rename(root+"/new", root+"/dir"))
	for message := range told {
		if strings.Contains(message, "/dir/secret was replaced on the host") {
			if !strings.Contains(message, "watching") {
				t.Error(message)
			}
			break
		}
	}
	must(t, cmd.Signal(syscall.SIGKILL))
	cmd.Wait()
}

// A background process outlives the command that started it, and the next one ends it.
func TestKeptExample(t *testing.T) {
	t.Parallel()
	h, ctx, logFile := keptHost(t, nil), t.Context(), io.Discard
	definition := host.Definition{Session: host.SessionDefinition{Processes: true}}
	server := h.CommandIn(ctx, definition, "sh", "-c", "sleep 1000 & echo $! >/tmp/server.pid")
	server.Background = logFile // what the server writes once the shell has ended
	err := server.Run()
	if err == nil {
		err = h.CommandIn(ctx, definition, "sh", "-c", "kill $(cat /tmp/server.pid)").Run()
	}
	must(t, err)
	must(t, h.CommandIn(ctx, definition, "sh", "-c", "while kill -0 $(cat /tmp/server.pid); do sleep .01; done").Run()) // until it is reaped
}

// A Host that ends while a command of its session runs still reports what that made: the next command gives
// no alarm.
func TestKeptEndIsNoAlarm(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	var h *host.Host
	h = keptHost(t, func(o *host.Options) {
		o.Environ = append(o.Environ, "XDG_STATE_HOME="+state)
		o.Record = recording(func(r audit.Record) error {
			for r.Event == audit.EventEnd && h.HasProcesses() {
				time.Sleep(time.Millisecond) // nothing tells when Close has forgotten the session
			}
			return nil
		})
	})
	cmd := h.Command(t.Context(), "dev", "sleep", "1000")
	must(t, cmd.Start(), h.Close())
	cmd.Wait()
	if marks, _ := filepath.Glob(state + "/sbxhost/unreported/*"); len(marks) != 0 {
		t.Errorf("marks %q", marks)
	}
}

// What a background process tries on the network while no command runs is in the audit log when the
// session ends, if no later command has heard of it.
func TestKeptNetworkIsLogged(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*host.Host) error{
		"its end":             func(h *host.Host) error { return h.EndProcesses(t.Context()) },
		"the end of the Host": (*host.Host).Close,
	} {
		t.Run(name, func(t *testing.T) { testKeptNetworkIsLogged(t, end) })
	}
}

func testKeptNetworkIsLogged(t *testing.T, end func(*host.Host) error) {
	var mu sync.Mutex
	var records []audit.Record
	h := keptHost(t, func(o *host.Options) {
		d := o.Sandboxes["dev"]
		d.Network = host.Network{Names: []string{"a.example"}}
		o.Sandboxes["dev"] = d
		o.Record = recording(func(r audit.Record) error {
			mu.Lock()
			defer mu.Unlock()
			records = append(records, r)
			return nil
		})
	})
	output(t, h, "dev", "(until test -e go; do sleep 0.02; done; getent hosts b.example; echo >tried; exec sleep 1000) </dev/null >/dev/null 2>&1 &")
	mu.Lock()
	before := len(records)
	mu.Unlock()
	must(t, os.WriteFile(h.Root()+"/go", nil, 0o644))
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(h.Root() + "/tried"); err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("it does not try")
		}
	}
	must(t, end(h))
	mu.Lock()
	defer mu.Unlock()
	if len(records) != before+1 {
		t.Fatalf("%+v", records)
	}
	r := records[before]
	if r.Event != audit.EventSession || r.Sandbox != "dev" || r.Engine != "native" || r.Workspace != h.Root() || r.Command == "" || r.Command == records[0].Command ||
		len(r.Network) != 1 || r.Network[0].Name != "b.example" || r.Network[0].Allowed {
		t.Errorf("%+v", r)
	}
}

// A server that a command has left running is reached from the host, until the session ends.
func TestKeptPublishes(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := free.Addr().String()
	h := keptHost(t, func(o *host.Options) {
		d := o.Sandboxes["dev"]
		d.Publish = []string{at + ":3000"}
		o.Sandboxes["dev"] = d
	})
	must(t, free.Close())
	const server = `$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 3000, Listen => 5) or die $@; while ($c = $s->accept) { print $c "hello\n"; close $c }`
	must(t, h.Command(t.Context(), "dev", "sh", "-c", `perl -MIO::Socket::INET -e "$0" </dev/null >/dev/null 2>&1 &`, server).Run())
	hello := func() bool {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			return false
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		return string(text) == "hello\n"
	}
	for begin := time.Now(); !hello(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("nobody answers")
		}
	}
	must(t, h.EndProcesses(t.Context()))
	if conn, err := net.Dial("tcp", at); err == nil {
		conn.Close()
		t.Error("somebody listens still")
	}
}
