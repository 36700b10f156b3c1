package host_test

import (
	"bufio"
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
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// requireBwrap skips a test where bubblewrap is missing, unless the
// environment says that it must be there.
func requireBwrap(t testing.TB) {
	t.Helper()
	for _, path := range []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"} {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
		t.Fatal("bubblewrap is required here and not installed")
	}
	t.Skip("bubblewrap is not installed")
}

// newHost gives a Host over an empty project.
func newHost(t testing.TB, change func(*host.Options)) *host.Host {
	t.Helper()
	requireBwrap(t)
	root := t.TempDir()
	o := host.Options{
		Builtins:  builtins,
		Dir:       root,
		Workspace: host.WorkspaceOptions{Root: root},
		Sandboxes: map[string]host.Definition{
			"fast":   {Engine: "native"},
			"online": {Engine: "native", Network: host.Network{Host: true}},
			"open":   {Engine: "noop"},
		},
		DefaultSandbox: "fast",
	}
	if change != nil {
		change(&o)
	}
	if info, err := os.Stat(o.Dir); err == nil && o.Session.Dir == "" && int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		o.Session.Dir = filepath.Join(filepath.Dir(root), "sessions") // and not the machine's /var/cache
	}
	h, err := host.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

func TestOutputAndStatus(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	for _, sandbox := range []string{"", "fast", "online", "open"} {
		t.Run("sandbox "+sandbox, func(t *testing.T) {
			t.Parallel()
			cmd := h.Command(t.Context(), sandbox, "sh", "-c", "cat; echo err >&2; exit 7")
			cmd.Stdin = strings.NewReader("hi\n")
			out, err := cmd.Output()
			exit, ok := errors.AsType[*host.ExitError](err)
			if !ok || exit.Code != 7 || string(out) != "hi\n" || string(exit.Stderr) != "err\n" {
				t.Fatalf("got %q, %v", out, err)
			}
			report := cmd.Report()
			if report.Result == nil || report.Result.Status.Code != 7 {
				t.Errorf("report: %+v", report)
			}
			want := "sandboxed"
			if sandbox == "open" {
				want = "unsandboxed"
			}
			if report.Decision != want {
				t.Errorf("decision %q, want %q", report.Decision, want)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	for _, test := range []struct {
		script string
		want   shared.ExitStatus
	}{
		{"exit 143", shared.ExitStatus{Code: 143}},
		{"kill -TERM $$", shared.ExitStatus{Signal: syscall.SIGTERM}},
		{"kill -KILL $$", shared.ExitStatus{Signal: syscall.SIGKILL}},
	} {
		err := h.Command(t.Context(), "fast", "sh", "-c", test.script).Run()
		exit, ok := errors.AsType[*host.ExitError](err)
		if !ok || exit.ExitStatus != test.want {
			t.Errorf("%s: got %v, want %v", test.script, err, test.want)
		}
	}
	if err := h.Command(t.Context(), "fast", "no-such-command").Run(); !errors.Is(err, shared.ErrNotFound) || !errors.Is(err, exec.ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing command: %v", err)
	}
	if err := h.Command(t.Context(), "fast", "/etc/passwd").Run(); !errors.Is(err, shared.ErrNotExecutable) {
		t.Errorf("file that is not executable: %v", err)
	}
	if err := h.Command(t.Context(), "nope", "true").Run(); !errors.Is(err, host.ErrUnknownSandbox) || !strings.Contains(err.Error(), "fast, online, open") {
		t.Errorf("unknown sandbox: %v", err)
	}
}

func TestContextKillsTheTree(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := h.Command(ctx, "fast", "sh", "-c", "trap '' TERM; sleep 1000 & echo ready; wait; sleep 1000")
	read, write := io.Pipe()
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fscanln(read)
	cancel()
	go io.Copy(io.Discard, read)
	exit, ok := errors.AsType[*host.ExitError](cmd.Wait())
	if !ok || exit.Signal != syscall.SIGKILL {
		t.Errorf("got %v", exit)
	}
}

func TestTimeoutRunsTheHandler(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	// More time for one that was ended before it could set the trap.
	for timeout := 300 * time.Millisecond; ; timeout *= 4 {
		cmd := h.Command(t.Context(), "fast", "sh", "-c", `trap 'echo handled; exit 3' TERM; echo set; while :; do sleep 0.01; done`)
		cmd.Timeout = timeout
		out, err := cmd.Output()
		if len(out) == 0 && timeout < time.Minute {
			continue
		}
		exit, ok := errors.AsType[*host.ExitError](err)
		if !ok || !exit.TimedOut || !errors.Is(err, host.ErrTimedOut) || cmd.Report().Status != 124 || exit.Code != 3 || string(out) != "set\nhandled\n" {
			t.Errorf("got %q, %v", out, err)
		}
		return
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			out, err := h.Command(t.Context(), "fast", "echo", fmt.Sprint(i)).Output()
			if err != nil || string(out) != fmt.Sprintln(i) {
				t.Errorf("%d: %q, %v", i, out, err)
			}
		})
	}
	wg.Wait()
}

func TestTTY(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	cmd := h.Command(t.Context(), "fast", "sh", "-c", "tty; stty size; test -t 0 && test -t 2 && : </dev/tty && echo done")
	cmd.TTY = true
	cmd.Size = host.TerminalSize{Rows: 33, Cols: 99}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "33 99") || !strings.Contains(out.String(), "done") {
		t.Errorf("got %q", out.String())
	}
}

// A terminal of the caller's is not the command's: it has one of its own to write to,
// of the same size, and nothing to read.
func TestCallersTerminal(t *testing.T) {
	t.Parallel()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	again, err := os.OpenFile(slave.Name(), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 7, Cols: 77}); err != nil {
		t.Fatal(err)
	}
	cmd := eventfulHost(t).Command(t.Context(), "", "sh", "-c", "stty size <&1; cat; echo err >&2; echo out; head -c 1 <&1 2>/dev/null || echo nothing")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, again
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	slave.Close()
	again.Close()
	got, _ := io.ReadAll(master) // EIO is its end
	if want := "7 77\r\nerr\r\nout\r\nnothing\r\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The key that stops a job is the caller's to act on where nobody inside does.
func TestSuspend(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"echo ready; read x":                             1,
		"stty -isig; echo ready; read x":                 0,
		"stty susp ^y; echo ready; read x":               0,
		"trap '' TSTP; echo ready; read x":               0,
		"trap : TSTP; echo ready; read x || read x":      1, // as it was where the terminal was the caller's
		"set -m; sh -c 'stty -echo; echo ready; read x'": 0, // a job of the shell's
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			cmd := eventfulHost(t).Command(t.Context(), "", "sh", "-c", script)
			cmd.TTY = true
			keys, typed := io.Pipe()
			cmd.Stdin = keys
			suspended := make(chan struct{}, 10)
			cmd.Suspend = func() { suspended <- struct{}{} }
			ready, ended := make(chan struct{}), make(chan error, 1)
			var once sync.Once
			cmd.Stdout = writerFunc(func(p []byte) (int, error) {
				if bytes.Contains(p, []byte("ready")) {
					once.Do(func() { close(ready) })
				}
				return len(p), nil
			})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- cmd.Wait() }()
			<-ready
			typed.Write([]byte("\x1a"))
			go func() {
				<-ended // of a shell whose job was stopped: nobody takes what is typed then
				keys.Close()
				ended <- nil
			}()
			typed.Write([]byte("x\n")) // which is taken when the first was acted on
			if len(suspended) != want {
				t.Errorf("suspended %d times, want %d", len(suspended), want)
			}
			cmd.Signal(syscall.SIGKILL)
			<-ended
		})
	}
}

// Where an engine takes no terminal, a command that can do without runs without.
func TestTTYOptional(t *testing.T) {
	t.Parallel()
	s := &stubs{platform: &stubEngine{name: "bwrap"}}
	h := s.host(t, host.Definition{Engine: "bwrap"}, nil)
	cmd := h.Command(t.Context(), "a", "true")
	cmd.Stdin, cmd.TTY, cmd.TTYOptional = strings.NewReader("typed"), true, true
	if err := cmd.Run(); err != nil || cmd.TTY {
		t.Errorf("TTY is %v, %v", cmd.TTY, err)
	}
	cmd = h.Command(t.Context(), "a", "true")
	cmd.TTY = true
	if err := cmd.Run(); !errors.Is(err, shared.ErrUnsupported) {
		t.Errorf("one that is wanted: %v", err)
	}
}

func TestExplainRunsNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	marker := filepath.Join(h.Root(), "marker")
	e, err := h.Command(t.Context(), "fast", "touch", marker).Explain()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command ran")
	}
	if e.Decision != "sandboxed" || len(e.Plan.Mounts) == 0 || len(e.Env) == 0 || len(e.Plan.Documents) == 0 || !slices.ContainsFunc(e.Plan.Mounts, func(m shared.PlannedMount) bool { return m.Source == h.Root() }) {
		t.Errorf("got %+v", e)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	if err := h.Check(t.Context(), ""); err != nil {
		t.Error(err)
	}
	h = newHost(t, func(o *host.Options) {
		o.Sandboxes = map[string]host.Definition{"gone": {Engine: "native", BindPaths: []host.Bind{{Host: "/no/such/path"}}}}
		o.DefaultSandbox = ""
	})
	e, ok := errors.AsType[*shared.Error](h.Check(t.Context(), ""))
	if !ok || e.Attribute != "bind_paths[0]" {
		t.Errorf("got %v", e)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := h.Command(t.Context(), "fast", "sh", "-c", "echo ready; sleep 1000")
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	out := bufio.NewReader(read)
	if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("Wait after Close gave no error")
	}
	if _, err := out.ReadByte(); err != io.EOF {
		t.Errorf("the command still holds its output: %v", err)
	}
	if err := h.Command(t.Context(), "fast", "true").Run(); !errors.Is(err, host.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

// A root caller's commands run as the workspace's owner, so that what they
// make is the user's.
func TestRunsAsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has somebody else to run commands as")
	}
	const uid, gid = 54321, 54322
	h := newHost(t, func(o *host.Options) {
		// The directory of a test's directories is for its owner alone.
		if err := errors.Join(os.Chown(o.Dir, uid, gid), os.Chmod(filepath.Dir(o.Dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	})
	cmd := h.Command(t.Context(), "fast", "sh", "-c", "id -u; id -g; echo made >made; cat; echo ${HOME-none}")
	cmd.Stdin = strings.NewReader("given\n")
	out, err := cmd.CombinedOutput()
	if want := "54321\n54322\ngiven\nnone\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	info, err := os.Stat(filepath.Join(h.Root(), "made"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != uid || st.Gid != gid {
		t.Errorf("the file belongs to %d:%d", st.Uid, st.Gid)
	}
}

// Nothing walks the workspace, however large it is.
func TestLargeWorkspace(t *testing.T) {
	h := newHost(t, nil)
	files := 100_000
	if testing.Short() {
		files = 10_000
	}
	dir := filepath.Join(h.Root(), "many")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for i := range files {
		f, err := root.Create(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	out, err := h.Command(t.Context(), "fast", "sh", "-c", "ls -f many | wc -l").Output()
	if want := fmt.Sprintln(files + 2); err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// The network and binds of one command are its own, and no other command has them.
func TestCommandsOwnNetworkAndBinds(t *testing.T) {
	t.Parallel()
	extra := realTemp(t)
	must(t, os.WriteFile(extra+"/file", []byte("shown\n"), 0o644))
	h := newHost(t, nil)
	run := func(cmd *host.Cmd) string {
		t.Helper()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const which = "readlink /proc/self/ns/net"
	plain := run(h.Command(t.Context(), "fast", "sh", "-c", which))
	cmd := h.Command(t.Context(), "fast", "sh", "-c", which)
	cmd.Network = &host.Network{Host: true}
	outside, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	if out := run(cmd); !strings.HasSuffix(out, outside+"\n") || cmd.Report().Sandbox != "fast" {
		t.Errorf("with network: %q, in %q", out, cmd.Report().Sandbox)
	}
	cmd = h.Command(t.Context(), "online", "sh", "-c", which)
	cmd.Network = &host.Network{}
	if out := run(cmd); strings.Contains(out, outside) || strings.Contains(plain, outside) {
		t.Errorf("without network: %q and %q", out, plain)
	}

	cmd = h.Command(t.Context(), "fast", "cat", extra+"/file")
	cmd.BindPaths = []host.Bind{{Host: extra}}
	if out := run(cmd); out != "shown\n" {
		t.Errorf("got %q", out)
	}
	if err := h.Command(t.Context(), "fast", "cat", extra+"/file").Run(); err == nil {
		t.Error("another command sees it")
	}
	cmd = h.Command(t.Context(), "fast", "sh", "-c", "echo changed >"+extra+"/file")
	cmd.BindPaths = []host.Bind{{Host: extra, Writable: true}}
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(extra + "/file"); err != nil || string(text) != "changed\n" {
		t.Errorf("%q, %v", text, err)
	}
	late := h.CommandIn(t.Context(), host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: extra}}}, "cat", extra+"/file")
	late.BindPaths = []host.Bind{{Host: extra + "/none"}}
	err = late.Run()
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "BindPaths[0]" {
		t.Errorf("got %v", err)
	}
	late = h.CommandIn(t.Context(), host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: extra}, {Host: extra + "/none"}}}, "true")
	err = late.Run()
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "bind_paths[1]" {
		t.Errorf("got %v", err)
	}
}

// A late definition that gives commands the place of what runs outside is refused, and what it
// shows writable counts from then on.
func TestLateDefinitionsAreNotTrustedWithPrograms(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	h := newHost(t, func(o *host.Options) {
		o.Engines = map[string]host.EngineSource{"x": {Source: dir + "/engines/x"}}
	})
	program(t, dir+"/engines/x")
	in := func(bind string) error {
		def := host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: bind, Writable: true}}}
		return h.CommandIn(t.Context(), def, "true").Run()
	}
	if err := in(dir + "/engines/x"); err == nil || !strings.Contains(err.Error(), `engine "x"`) {
		t.Errorf("got %v", err)
	}
	must(t, in(dir))
	if _, _, err := h.EngineCommand("x"); err == nil || !strings.Contains(err.Error(), "what is bound writable") {
		t.Errorf("got %v", err)
	}
}

// Two definitions whose texts come out alike are two.
func TestDefinitionsThatPrintAlike(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	for _, value := range []string{"a\xff", "a\xfe"} {
		cmd := h.CommandIn(t.Context(), host.Definition{Engine: "native", Env: map[string]string{"VALUE": value}}, "sh", "-c", `printf %s "$VALUE"`)
		out, err := cmd.Output()
		if err != nil || string(out) != value {
			t.Errorf("%q, %v, want %q", out, err, value)
		}
	}
}
