//go:build linux

package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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
		{name: "interrupt", args: loop, typed: "\x03", status: -int(syscall.SIGINT)},
		{name: "quit", args: loop, typed: "\x1c", status: 131},
		{name: "TERM", args: loop, signal: syscall.SIGTERM, status: 143},
		{name: "HUP", args: loop, signal: syscall.SIGHUP, status: 129},
		{name: "timeout", args: []string{"exec", "-t", "-timeout", "300ms", "--", "sh", "-c", "echo ready; sleep 1000"}, status: 124},
		{name: "not found", args: []string{"exec", "-t", "--", "no-such-command"}, status: 127},
		{name: "no sandbox", args: []string{"exec", "-t", "-sandbox", "none", "--", "true"}, status: 125},
		// Nobody is left to do it.
		{name: "KILL", args: loop, signal: syscall.SIGKILL, status: -int(syscall.SIGKILL), raw: true},
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

// stopped tells whether all threads of a process are.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, _ := os.ReadFile(thread)
		if _, state, _ := bytes.Cut(stat, []byte(") ")); len(state) == 0 || state[0] != 'T' {
			return false
		}
	}
	return len(threads) > 0
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

// stuckGit makes a directory for PATH, with a git that never answers, and gives the file that it writes.
func stuckGit(t *testing.T, project string) (dir, asked string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("git", "init", "-q", project).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n>${0%/*}/asked\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "asked")
}

// ^C is not for a program that sbxhost asks: its death would look like an error of the configuration.
func testInterruptedHelper(t *testing.T, p *place) {
	need(t, "git")
	dir, asked := stuckGit(t, p.project)
	cmd := exec.Command(filepath.Join(p.bin, "sbxhost"), "exec", "--", "true")
	cmd.Dir, cmd.Env = p.project, append(p.env(), "PATH="+dir+":/usr/bin:/bin")
	l := connect(t, cmd)
	until(t, "a question to git", func() bool { _, err := os.Lstat(asked); return err == nil }, l.text)
	l.types("\x03")
	if status := l.ends(); status != -int(syscall.SIGINT) {
		t.Errorf("status %d: %s", status, l.text())
	}
	l.sees("ended by SIGINT before the command ran")
}
