//go:build linux

package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// need skips a test where a program is missing, unless SBXHOST_REQUIRE lists it.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if required(program) {
			t.Fatalf("SBXHOST_REQUIRE lists %s, which is not there", program)
		}
		t.Skipf("no %s here", program)
	}
}

// until waits for a condition, and fails with what describe gives.
func until(t *testing.T, what string, holds func() bool, describe func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s; there is\n%s", what, describe())
		}
	}
}

// place is where the sandboxes of a test are used: a home, a project that is
// the workspace, and the program.
type place struct {
	bin, home, project string
	sandboxes          []string
	session            string
}

const terminalConfig = `default_sandbox = "fast"

sandbox "fast" {
  engine = "native"
}

sandbox "open" {
  engine  = "noop"
  network = true
}

sandbox "wrap" {
  engine = "bwrap"
}
`

// TestProgramAtATerminal drives the built program on real terminals.
func TestProgramAtATerminal(t *testing.T) {
	need(t, "bwrap")
	onTerminals(t, newPlace, map[string]func(*testing.T, *place){
		"restored":    testRestored,
		"suspended":   testSuspended,
		"hangup":      testHangup,
		"bytes":       testBytes,
		"paste":       testPaste,
		"closed":      testClosedOutput,
		"job control": testJobControl,
		"outer jobs":  testOuterJobs,
		"no -t":       testUnasked,
		"own":         testOwn,
		"background":  testInBackground,
		"pager":       testPager,
		"exact":       testExact,
		"keys":        testKeysOfTheJob,
		"flood":       testFlood,
		"shell":       testShell,
		"resize":      testResize,
		"vim":         testVim,
		"less":        testLess,
		"top":         func(t *testing.T, p *place) { testMonitor(t, p, "top") },
		"htop":        func(t *testing.T, p *place) { testMonitor(t, p, "htop") },
		"tmux inside": testTmuxInside,
		"script":      testScriptInside,
	})
}

// TestKeptTerminal drives it where a keeper runs the command, and the terminal is its client's.
func TestKeptTerminal(t *testing.T) {
	onTerminals(t, newKeptPlace, map[string]func(*testing.T, *place){
		"restored":    testRestored,
		"suspended":   testSuspended,
		"hangup":      testHangup,
		"bytes":       testBytes,
		"paste":       testPaste,
		"closed":      testClosedOutput,
		"job control": testJobControl,
		"outer jobs":  testOuterJobs,
		"no -t":       testUnasked,
		"background":  testInBackground,
		"pager":       testPager,
		"keys":        testKeysOfTheJob,
		"flood":       testFlood,
		"shell":       testShell,
		"resize":      testResize,
		"vim":         testVim,
	})
}

// newKeptPlace is newPlace where a keeper runs the commands.
func newKeptPlace(t *testing.T, bin string) *place {
	p := newPlace(t, bin)
	p.sandboxes, p.session = []string{"fast"}, "kept"
	const config = "sandbox \"fast\" {\n  engine = \"native\"\n  session {\n    processes = true\n  }\n}\n"
	if err := os.WriteFile(filepath.Join(p.home, "sandbox.hcl"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd := exec.Command(filepath.Join(bin, "sbxhost"), "sessions", "rm", p.session)
		cmd.Dir, cmd.Env = p.project, p.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return p
}

// onTerminals drives the built program, in each test at a place of its own, and sees to it that
// no process is left.
func onTerminals(t *testing.T, newPlace func(*testing.T, string) *place, tests map[string]func(*testing.T, *place)) {
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	t.Cleanup(func() {
		until(t, "all processes to be gone", func() bool { return len(running(bin)) == 0 },
			func() string { return fmt.Sprint(running(bin)) })
	})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPlace(t, bin))
		})
	}
}

// running lists the processes of the programs in dir.
func running(dir string) []string {
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, dir+"/") {
			found = append(found, filepath.Dir(link))
		}
	}
	return found
}

func newPlace(t *testing.T, bin string) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{bin: bin, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), sandboxes: []string{"fast", "open", "wrap"}}
	for _, d := range []string{p.home, p.project} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.home, "sandbox.hcl"), []byte(terminalConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) env() []string {
	return []string{
		"PATH=" + p.bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + p.home, "TMPDIR=/tmp", "TERM=screen-256color", "LANG=C.UTF-8",
		"SHELL=/bin/sh", "SBXHOST_CONFIG=" + filepath.Join(p.home, "sandbox.hcl"), "PS1=IN> ", "SBXHOST_SESSION=" + p.session,
	}
}

// A line is sbxhost on a terminal of its own, which the test holds the other
// end of.
type line struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File

	mu     sync.Mutex
	output bytes.Buffer
	ended  chan struct{}
}

// dial runs sbxhost with args on a new terminal.
func (p *place) dial(t *testing.T, args ...string) *line {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, "sbxhost"), args...)
	cmd.Dir, cmd.Env = p.project, p.env()
	return connect(t, cmd)
}

// connect runs a program on a new terminal.
func connect(t *testing.T, cmd *exec.Cmd) *line {
	t.Helper()
	l := &line{t: t, cmd: cmd, ended: make(chan struct{})}
	master, err := pty.StartWithSize(l.cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	// Pollable, so that it can be closed while it is read.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master.Close()
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	l.master = master
	go func() {
		var buf [4096]byte
		for {
			n, err := master.Read(buf[:])
			l.mu.Lock()
			l.output.Write(buf[:n])
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		l.cmd.Wait()
		close(l.ended)
	}()
	t.Cleanup(func() {
		l.cmd.Process.Kill()
		<-l.ended
		l.master.Close()
	})
	return l
}

func (l *line) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.output.String()
}

func (l *line) sees(want string) {
	l.t.Helper()
	until(l.t, fmt.Sprintf("%q", want), func() bool { return strings.Contains(l.text(), want) }, l.text)
}

func (l *line) types(s string) {
	l.t.Helper()
	if _, err := l.master.WriteString(s); err != nil {
		l.t.Fatal(err)
	}
}

// isRaw tells whether the terminal passes on every key.
func (l *line) isRaw() bool {
	conn, err := l.master.SyscallConn()
	if err != nil {
		l.t.Fatal(err)
	}
	raw := false
	conn.Control(func(fd uintptr) {
		// The master's modes are those of the pair.
		modes, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		raw = err == nil && modes.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
	})
	return raw
}

func (l *line) becomesRaw() {
	l.t.Helper()
	until(l.t, "a raw terminal", l.isRaw, l.text)
}

// ends waits for the end and gives the exit status.
func (l *line) ends() int {
	l.t.Helper()
	until(l.t, "the end", func() bool {
		select {
		case <-l.ended:
			return true
		default:
			return false
		}
	}, l.text)
	return l.cmd.ProcessState.ExitCode()
}

// Whatever ends sbxhost, the terminal is as it was, but for one thing.
func testRestored(t *testing.T, p *place) {
	loop := []string{"exec", "-t", "--", "sh", "-c", "echo ready; while :; do sleep 0.02; done"}
	for _, tt := range []struct {
		name   string
		args   []string
		typed  string
		signal syscall.Signal
		status int
		raw    bool
	}{
		{name: "exit", args: []string{"exec", "-t", "--", "sh", "-c", "echo ready; read x; exit 7"}, typed: "\r", status: 7},
		{name: "interrupt", args: loop, typed: "\x03", status: 130},
		{name: "quit", args: loop, typed: "\x1c", status: 131},
		{name: "TERM", args: loop, signal: syscall.SIGTERM, status: 143},
		{name: "HUP", args: loop, signal: syscall.SIGHUP, status: 129},
		{name: "timeout", args: []string{"exec", "-t", "-timeout", "300ms", "--", "sh", "-c", "echo ready; sleep 1000"}, status: 124},
		{name: "not found", args: []string{"exec", "-t", "--", "no-such-command"}, status: 127},
		{name: "no sandbox", args: []string{"exec", "-t", "-sandbox", "none", "--", "true"}, status: 125},
		// Nobody is left to do it.
		{name: "KILL", args: loop, signal: syscall.SIGKILL, status: -1, raw: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := p.dial(t, tt.args...)
			// The master alone would lose what is asked of it when the last
			// process has closed the terminal.
			slave, err := os.OpenFile(slaveOf(t, l.master), os.O_RDWR|syscall.O_NOCTTY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer slave.Close()
			if tt.typed != "" || tt.signal != 0 {
				l.sees("ready")
				l.becomesRaw()
			}
			if tt.typed != "" {
				l.types(tt.typed)
			}
			if tt.signal != 0 {
				l.cmd.Process.Signal(tt.signal)
			}
			if status := l.ends(); status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, l.text())
			}
			if l.isRaw() != tt.raw {
				t.Errorf("raw: %v", l.isRaw())
			}
		})
	}
}

func slaveOf(t *testing.T, master *os.File) string {
	t.Helper()
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	conn.Control(func(fd uintptr) { number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN) })
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/dev/pts/%d", number)
}

// stopped tells whether a process is.
func stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return len(state) > 0 && state[0] == 'T'
}

// sizes is shell text that tells the terminal's size each time that it has changed,
// and what is typed. One signal that comes during a handler for another is lost by
// bash, and so is one that comes before a read.
const sizes = `exec 3<&0; while read x; do echo got $x; done <&3 & trap changed=1 WINCH; ` +
	`echo ready $(stty size); while :; do sleep 0.05; if test "$changed"; then changed=; echo drawn $(stty size); fi; done`

// SIGTSTP gives the terminal back, SIGCONT takes it again, and the command has
// stood still meanwhile and is told to draw its screen.
func testSuspended(t *testing.T, p *place) {
	l := p.dial(t, "exec", "-t", "--", "sh", "-c", sizes)
	l.sees("ready")
	l.becomesRaw()
	pid := l.cmd.Process.Pid
	syscall.Kill(pid, syscall.SIGTSTP)
	until(t, "sbxhost to be stopped", func() bool { return stopped(pid) }, l.text)
	if l.isRaw() {
		t.Error("the terminal is raw")
	}
	syscall.Kill(pid, syscall.SIGCONT)
	l.becomesRaw()
	l.sees("drawn 24 80")
	l.types("something\r")
	l.sees("got something")

	// Nobody tells of SIGSTOP: a shell takes the terminal as it is.
	syscall.Kill(pid, syscall.SIGSTOP)
	until(t, "sbxhost to be stopped", func() bool { return stopped(pid) }, l.text)
	slave, err := os.OpenFile(slaveOf(t, l.master), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	modes, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	modes.Lflag |= unix.ICANON | unix.ECHO | unix.ISIG
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGCONT)
	l.becomesRaw()
	l.types("more\r")
	l.sees("got more")
	l.types("\x03")
	l.ends()
}

// The command ends with the terminal that sbxhost is on.
func testHangup(t *testing.T, p *place) {
	for _, sandbox := range p.sandboxes {
		l := p.dial(t, "exec", "-sandbox", sandbox, "-t", "--", "sh", "-c", "trap 'echo hung up >end-"+sandbox+"; exit' HUP; echo ready; while :; do sleep 0.02; done")
		l.sees("ready")
		l.becomesRaw()
		l.master.Close()
		l.ends()
		if text, err := os.ReadFile(filepath.Join(p.project, "end-"+sandbox)); string(text) != "hung up\n" {
			t.Errorf("%s: the command left %q, %v", sandbox, text, err)
		}
	}
}

// Every byte gets through, both ways.
func testBytes(t *testing.T, p *place) {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	l := p.dial(t, "exec", "-t", "--", "sh", "-c", `stty raw -echo; echo ready; head -c 256 >bytes; printf '<'; cat bytes; printf '>'; test "$(wc -c <bytes)" = 256`)
	l.sees("ready")
	l.becomesRaw()
	l.types(string(all))
	if status := l.ends(); status != 0 {
		t.Errorf("status %d", status)
	}
	l.sees("<" + string(all) + ">")
	if got, err := os.ReadFile(filepath.Join(p.project, "bytes")); !bytes.Equal(got, all) {
		t.Errorf("the command got %q, %v", got, err)
	}
}

// A large paste arrives whole, with its characters of several bytes.
func testPaste(t *testing.T, p *place) {
	l := p.dial(t, "exec", "-t", "--", "sh", "-c", "stty -echo; echo ready; cat >pasted")
	l.sees("ready")
	l.becomesRaw()
	paste := strings.Repeat("a line of what somebody pastes, äöü €\n", 10_000)
	// What the kernel's editor erases is a character.
	l.types(paste + "wrong €\x7fright\n\x04")
	if status := l.ends(); status != 0 {
		t.Errorf("status %d", status)
	}
	if got, err := os.ReadFile(filepath.Join(p.project, "pasted")); string(got) != paste+"wrong right\n" {
		t.Errorf("the command got %d bytes, not %d, that end in %q, %v", len(got), len(paste), got[max(0, len(got)-40):], err)
	}
}

// Output that nobody takes any more hangs the command up.
func testClosedOutput(t *testing.T, p *place) {
	cmd := exec.Command("sh", "-c", "sbxhost exec -t -- yes | head -n 1")
	cmd.Dir, cmd.Env = p.project, p.env()
	if out, err := cmd.CombinedOutput(); string(out) != "y\r\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	cmd = exec.Command(filepath.Join(p.bin, "sbxhost"), "exec", "-t", "--", "cat")
	cmd.Dir, cmd.Env, cmd.Stdin = p.project, p.env(), strings.NewReader("no end of line")
	if out, err := cmd.CombinedOutput(); !strings.HasSuffix(string(out), "no end of line") || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// The command has no terminal of its caller's, in none of its files, nor has any
// process but sbxhost itself. What is a terminal outside is one inside, but for input
// that somebody else may want.
func testOwn(t *testing.T, p *place) {
	for _, sandbox := range []string{"fast", "open", "wrap"} {
		for redirected, want := range map[string]string{
			"":                         "012 24 80",
			"</dev/null":               "12 24 80",
			"| cat":                    "2 24 80",
			">out":                     "2 24 80",
			"2>err":                    "01 24 80",
			">out 2>&1":                " ",
			"</dev/null >out":          "2 24 80",
			"</dev/null 2>err | cat":   " ",
			"</dev/tty >/dev/tty 2>&0": "012 24 80",
		} {
			t.Run(sandbox+redirected, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, p.bin)
				const script = `exec 9>&1; t=; for n in 0 1 2; do test -t $n && t=$t$n; done
					s=; case $t in *2) s=$(stty size <&2) ;; *1) s=$(stty size <&9) ;; esac; exec 9>&-
					(exec </dev/tty) 2>/dev/null && test "${t#0}" = "$t" && echo "a terminal all the same" >>seen
					echo "$t $s" >>seen; mkfifo wait; cat wait >/dev/null; echo end >>seen`
				if err := os.WriteFile(filepath.Join(p.project, "script"), []byte(script), 0o644); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("sh", "-c", "sbxhost exec -sandbox "+sandbox+" -- sh script "+redirected)
				cmd.Dir, cmd.Env = p.project, p.env()
				l := connect(t, cmd)
				wait := filepath.Join(p.project, "wait")
				until(t, "the command", func() bool { _, err := os.Stat(wait); return err == nil }, l.text)
				if got, err := os.ReadFile(filepath.Join(p.project, "seen")); string(got) != want+"\n" || err != nil {
					t.Errorf("the command sees %q, want %q, %v", got, want, err)
				}
				callers, err := os.Stat(slaveOf(t, l.master))
				if err != nil {
					t.Fatal(err)
				}
				has := map[string]bool{}
				files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
				for _, file := range files {
					if info, err := os.Stat(file); err == nil && os.SameFile(info, callers) {
						pid := strings.Split(file, "/")[2]
						line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
						has[strings.ReplaceAll(string(line), "\x00", " ")] = true
					}
				}
				for line := range has {
					if !strings.HasPrefix(line, "sbxhost exec ") && !strings.HasPrefix(line, "sh -c sbxhost ") && line != "cat " {
						t.Errorf("%q has the terminal", line)
					}
				}
				if len(has) == 0 {
					t.Error("nobody has the terminal")
				}
				if err := os.WriteFile(wait, []byte("go"), 0); err != nil {
					t.Fatal(err)
				}
				if status := l.ends(); status != 0 {
					t.Errorf("status %d: %s", status, l.text())
				}
			})
		}
	}
}

// What goes to a file or a pipe goes there byte by byte, and what goes to the
// terminal as it would from any program.
func testExact(t *testing.T, p *place) {
	for _, sandbox := range []string{"fast", "open", "wrap"} {
		for redirected, want := range map[string]struct{ out, err, screen string }{
			">out":                  {"a\nb\r\n\x03\x1a\xff", "", "c\r\n"},
			"2>err":                 {"", "c\n", "a\r\nb\r\r\n\x03\x1a\xff"},
			">out 2>err":            {"a\nb\r\n\x03\x1a\xff", "c\n", ""},
			"2>err | cat >out":      {"a\nb\r\n\x03\x1a\xff", "c\n", ""},
			"</dev/null":            {"", "", "a\r\nb\r\r\n\x03\x1a\xffc\r\n"},
			"":                      {"", "", "a\r\nb\r\r\n\x03\x1a\xffc\r\n"},
			"</dev/null 2>err >out": {"a\nb\r\n\x03\x1a\xff", "c\n", ""},
		} {
			t.Run(sandbox+redirected, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, p.bin)
				if sandbox == "open" { // which sbxhost has a line for
					const warning = `running WITHOUT a sandbox (engine-named-unconfined): the definition names engine "noop", which does not isolate commands`
					if strings.Contains(redirected, "2>err") {
						want.err = "sbxhost: " + warning + "\n" + want.err
					} else {
						want.screen = "\x1b[1msbxhost:\x1b[0m " + warning + "\r\n" + want.screen
					}
				}
				cmd := exec.Command("sh", "-c", "sbxhost exec -sandbox "+sandbox+` -- sh -c 'while [ ! -e go ]; do sleep 0.01; done; printf "a\nb\r\n\003\032\377"; printf "c\n" >&2' `+redirected)
				cmd.Dir, cmd.Env = p.project, p.env()
				l := connect(t, cmd)
				if redirected == "" || redirected == "2>err" {
					l.becomesRaw() // before that it ends lines as well as the command's own
				}
				if err := os.WriteFile(filepath.Join(p.project, "go"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				if status := l.ends(); status != 0 {
					t.Errorf("status %d", status)
				}
				until(t, fmt.Sprintf("%q", want.screen), func() bool { return l.text() == want.screen }, func() string { return fmt.Sprintf("%q", l.text()) })
				for name, want := range map[string]string{"out": want.out, "err": want.err} {
					if got, err := os.ReadFile(filepath.Join(p.project, name)); string(got) != want || err != nil && !os.IsNotExist(err) {
						t.Errorf("%s: %q, want %q, %v", name, got, want, err)
					}
				}
			})
		}
	}
}
