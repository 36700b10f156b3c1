package test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// serving is a server, and what its clients need.
type serving struct {
	dir, bin string
	env      []string
	server   *exec.Cmd
	stderr   *bufio.Reader
}

// A socket whose name does not say where it lies has every command search all that it shows.
func TestServeSocketIsListed(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil || !bytes.Contains(list, []byte(" "+s.dir+"/run/sbxhost/serve\n")) {
		t.Errorf("the server's socket is not listed by its path, error %v", err)
	}
}

func newServing(t *testing.T, flags ...string) *serving {
	t.Helper()
	requireBwrap(t)
	dir, err := os.MkdirTemp("", "sbxhost-serve-") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &serving{dir: dir, bin: t.TempDir()}
	build(t, s.bin, append(engineBinaries[:], "cmd/sbxhost", "cmd/sbx")...)
	for _, sub := range []string{"home", "project", "run"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.env = []string{"HOME=" + dir + "/home", "XDG_RUNTIME_DIR=" + dir + "/run", "PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
	if err := os.WriteFile(filepath.Join(dir, "c.hcl"), []byte(`default_sandbox = "fast"
sandbox "fast" {
  engine = "native"
}
sandbox "other" {
  engine    = "native"
  read_only = true
}
sandbox "open" {
  engine  = "noop"
  network = true
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t, flags...)
	return s
}

// start starts a server, and waits until it serves.
func (s *serving) start(t *testing.T, flags ...string) {
	t.Helper()
	s.server = exec.Command(filepath.Join(s.bin, "sbxhost"), append([]string{"serve"}, flags...)...)
	s.server.Env = s.env
	stderr, err := s.server.StderrPipe()
	if err == nil {
		err = s.server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	server := s.server
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	s.stderr = bufio.NewReader(stderr)
	line, err := s.stderr.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "sbxhost: serving ") {
		t.Fatalf("%q, %v", line, err)
	}
}

// sbxhost is one of its commands for the server.
func (s *serving) sbxhost(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), args...)
	cmd.Env = s.env
	return cmd
}

// sbx is a command of sbx with a configuration, after shell text that may change what it
// inherits.
func (s *serving) sbx(before string, args ...string) *exec.Cmd {
	args = append([]string{"-c", before + "\nexec \"$0\" \"$@\"", filepath.Join(s.bin, "sbx"), "-config", s.dir + "/c.hcl"}, args...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir, cmd.Env = s.dir+"/project", s.env
	return cmd
}

// begun starts a command whose first line is "begun", and returns when that has come. The server
// runs it: a client that a busy one lets wait for a second does without.
func (s *serving) begun(t *testing.T, stderr io.Writer, script string, flags ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	for range 20 {
		cmd := s.sbx("", append(flags, "-c", script)...)
		cmd.Stderr = stderr
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.ReadFull(stdout, make([]byte, len("begun\n")))
		}
		if err != nil {
			t.Fatal(err)
		}
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); filepath.Base(exe) == "sbx" {
			return cmd, stdout
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Fatal("the server runs nothing")
	return nil, nil
}

// parents lists a process, its parent, and so on.
func parents(pid int) (list []int) {
	for pid > 1 {
		list = append(list, pid)
		_, rest, _ := strings.Cut(procFile(pid, "stat"), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			break
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return list
}

// newUnserved is a serving without a server, and with a place where sbx may start one: below /tmp it starts none.
func newUnserved(t *testing.T) (*serving, string) {
	t.Helper()
	s := newServing(t)
	s.server.Process.Kill()
	s.server.Wait()
	run, err := os.MkdirTemp("/dev/shm", "sbxhost-serve-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	s.env = append(s.env, "XDG_RUNTIME_DIR="+run)
	return s, run
}

// Sbx starts the server that is missing: with nothing of its own but where the socket is. What init writes is
// served, and the server says what it keeps and whom it has not served.
func TestServeIsStarted(t *testing.T) {
	t.Parallel()
	s, _ := newUnserved(t)
	s.env = append(s.env, "MARK=first")
	sbxhost := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), args...)
		cmd.Dir, cmd.Env = s.dir+"/project", s.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() { sbxhost("serve", "-stop") })
	if out, err := exec.Command("git", "init", "-q", s.dir+"/project").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(s.dir+"/home/.cargo/registry", 0o700); err != nil {
		t.Fatal(err)
	}
	sbxhost("init")
	sbx := func(dir, before string, args ...string) string {
		t.Helper()
		cmd := exec.Command("/bin/sh", append([]string{"-c", before + "\nexec \"$0\" \"$@\"", filepath.Join(s.bin, "sbx")}, args...)...)
		cmd.Dir, cmd.Env = dir, s.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		text, served := strings.CutSuffix(string(out), "sbx: the server ran it\n")
		if served == slices.Contains(args, "-review") {
			t.Errorf("%q: served is %v", args, served)
		}
		return text
	}
	if got := sbxhost("serve", "-status"); got != "no server runs\n" {
		t.Errorf("before: %q", got)
	}
	if got := sbx(s.dir+"/project", "exec 9>"+s.dir+"/lock", "-v", "--", "echo", "served"); got != "served\n" {
		t.Errorf("the first: %q", got)
	}
	pid := servedBy(sbxhost("serve", "-status"))
	if got := procText(t, "/proc/"+pid+"/environ"); strings.Contains(got, "MARK") || strings.Contains(got, "HOME=") {
		t.Errorf("its environment: %q", got)
	}
	if dir, err := os.Readlink("/proc/" + pid + "/cwd"); err != nil || dir != "/" {
		t.Errorf("its directory: %q, %v", dir, err)
	}
	for fd := range 3 {
		if file, err := os.Readlink(fmt.Sprintf("/proc/%s/fd/%d", pid, fd)); err != nil || file != "/dev/null" {
			t.Errorf("its descriptor %d: %q, %v", fd, file, err)
		}
	}
	open, err := filepath.Glob("/proc/" + pid + "/fd/*")
	if err != nil || len(open) < 3 {
		t.Errorf("its descriptors: %q, %v", open, err)
	}
	for _, fd := range open {
		if file, _ := os.Readlink(fd); file == s.dir+"/lock" {
			t.Error("it keeps a lock of its first client's")
		}
	}
	if session := statOf(t, pid, 6); session != pid {
		t.Errorf("its session: %s, and it is %s", session, pid)
	}
	// What is a command's own does not part them.
	if err := os.Mkdir(s.dir+"/project/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if got := sbx(s.dir+"/project/sub", "export MARK=second", "-v", "-timeout", "50s", "-c", "pwd; echo x >"+s.dir+"/home/.cargo/registry/written"); got != s.dir+"/project/sub\n" {
		t.Errorf("in another directory: %q", got)
	}
	if got := sbx(s.dir+"/project", "", "-v", "-c", "ls "+s.dir+"/home/.cargo/registry"); got != "" {
		t.Errorf("a command has what another one has written: %q", got)
	}
	if got := sbx(s.dir+"/project", "", "-v", "-session", "x", "-c", "echo one >~/f") + sbxhost("exec", "-session", "x", "--", "cat", s.dir+"/home/f") +
		sbx(s.dir+"/project", "", "-v", "-session", "x", "-c", "cat ~/f"); got != "one\none\n" {
		t.Errorf("in a session: %q", got)
	}
	if status := sbxhost("serve", "-status"); !strings.Contains(status, "it holds session x ") {
		t.Errorf("%s", status)
	}
	sbxhost("sessions", "rm", "x")
	if status := sbxhost("serve", "-status"); strings.Contains(status, "session x ") {
		t.Errorf("after it was removed: %s", status)
	}
	if got := sbx(s.dir+"/project", "", "-v", "-review", "x", "--", "echo", "alone"); !strings.Contains(got, "it uses a review") || !strings.Contains(got, "alone\n") {
		t.Errorf("in a review: %q", got)
	}
	status := sbxhost("serve", "-status")
	if strings.Count(status, s.dir+"/project ") != 1 || !strings.Contains(status, "sbx -review x -- echo alone: it uses a review") {
		t.Errorf("%s", status)
	}
	sbxhost("serve", "-stop")
	if got := sbxhost("serve", "-status"); got != "no server runs\n" {
		t.Errorf("after -stop: %q", got)
	}
	if out, err := s.sbx("export SBX_SERVE=bogus", "--", "echo", "ran").CombinedOutput(); err == nil || string(out) != "sbx: SBX_SERVE is neither on nor off\n" {
		t.Errorf("another value: %v, %s", err, out)
	}
	// One that cannot be is told where it must be.
	cmd := s.sbx("export SBX_SERVE=on XDG_RUNTIME_DIR="+s.dir+"/run", "--", "echo", "x")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "others could replace a socket in") {
		t.Errorf("below /tmp: %v, %s", err, out)
	}
}
