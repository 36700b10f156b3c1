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
		"helper":      testInterruptedHelper,
		"job control": testJobControl,
		"outer jobs":  testOuterJobs,
		"no -t":       testUnasked,
		"own":         testOwn,
		"background":  testInBackground,
		"pager":       testPager,
		"exact":       testExact,
		"keys":        testKeysOfTheJob,
		"flood":       testFlood,
		"loop":        testLoop,
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
		"loop":        testLoop,
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
		"PATH=" + p.bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + p.home, "XDG_RUNTIME_DIR=" + p.home, "TMPDIR=/tmp", "TERM=screen-256color", "LANG=C.UTF-8",
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

// ends waits for the end and gives the exit status, or the negative number of the signal that ended
// the program itself.
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
	if how := l.cmd.ProcessState.Sys().(syscall.WaitStatus); how.Signaled() {
		return -int(how.Signal())
	}
	return l.cmd.ProcessState.ExitCode()
}
