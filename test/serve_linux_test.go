package test

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
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

	"golang.org/x/sys/unix"
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
func (s *serving) begun(t *testing.T, stderr io.Writer, script string) (*exec.Cmd, io.Reader) {
	t.Helper()
	for range 20 {
		cmd := s.sbx("", "-c", script)
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

// The server runs the command of who has its identity, and nobody else's.
func TestServeWhom(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	for _, c := range []struct {
		name, before string
		args         []string
		served       bool
	}{
		{"plainly", "", nil, true},
		{"again", "", nil, true},
		{"another umask", "umask 0027", nil, true},
		{"another limit", "ulimit -c 0; ulimit -f 123456", nil, true},
		{"another limit of open files", "ulimit -n 500", nil, false},
		{"without a server's directory", "unset XDG_RUNTIME_DIR; export SBX_SERVE=off", nil, false},
		{"another variable", "export STEP=2; cd ..; cd project", nil, true},
		{"another directory", "mkdir -p sub; cd sub", nil, true},
		{"another time limit", "", []string{"-timeout", "55s"}, true},
		{"an audit log", "export SBXHOST_AUDIT=" + s.dir + "/home/audit.log", nil, true},
		{"it could be confined", "exec setpriv --no-new-privs \"$0\" \"$@\"", nil, false},
		{"SBX_SERVE=off", "export SBX_SERVE=off", nil, false},
		{"a session", "", []string{"-session", "x"}, true},
		{"telemetry", "export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", nil, false},
	} {
		served := false
		for try := 0; try == 0 || try < 20 && c.served && !served; try++ { // see begun
			cmd := s.sbx(c.before, append(c.args, "-sandbox", "open", "--", "sh", "-c", "echo $PPID; read line; exit 7")...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			pid, _ := strconv.Atoi(strings.TrimSpace(line))
			served = slices.Contains(parents(pid), s.server.Process.Pid)
			stdin.Close()
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if served != c.served {
			t.Errorf("%s: served: %v, want %v", c.name, served, c.served)
		}
	}
}

// Sbx starts the server that is missing: with nothing of its own but where the socket is. What init writes is
// served, and the server says what it keeps and whom it has not served.
func TestServeIsStarted(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	s.server.Process.Kill()
	s.server.Wait()
	run, err := os.MkdirTemp("/dev/shm", "sbxhost-serve-") // below /tmp none is started
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	s.env = append(s.env, "XDG_RUNTIME_DIR="+run, "MARK=first")
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
		return string(out)
	}
	if got := sbxhost("serve", "-status"); got != "no server runs\n" {
		t.Errorf("before: %q", got)
	}
	if got := sbx(s.dir+"/project", "", "-v", "--", "echo", "served"); got != "served\n" {
		t.Errorf("the first: %q", got)
	}
	pid := strings.TrimSpace(procText(t, run+"/sbxhost/lock"))
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
	if got := sbx(s.dir+"/project", "", "-v", "-review", "x", "--", "echo", "alone"); !strings.Contains(got, "it is in a review") || !strings.Contains(got, "alone\n") {
		t.Errorf("in a review: %q", got)
	}
	status := sbxhost("serve", "-status")
	if strings.Count(status, s.dir+"/project ") != 1 || !strings.Contains(status, "sbx -review x -- echo alone: it is in a review") {
		t.Errorf("%s", status)
	}
	sbxhost("serve", "-stop")
	if got := sbxhost("serve", "-status"); got != "no server runs\n" {
		t.Errorf("after -stop: %q", got)
	}
	// One that cannot be is told where it must be.
	cmd := s.sbx("export SBX_SERVE=on XDG_RUNTIME_DIR="+s.dir+"/run", "--", "echo", "x")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "is no place for a socket") {
		t.Errorf("below /tmp: %v, %s", err, out)
	}
}

// The server that runs the commands of sbx holds the processes of all sessions that its callers begin. Who is
// confined otherwise has his session held by another, and after an upgrade of the programs each session goes on.
func TestServeHoldsSessions(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	s.server.Process.Kill()
	s.server.Wait()
	run, err := os.MkdirTemp("/dev/shm", "sbxhost-serve-") // below /tmp none is started
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	s.env = append(s.env, "XDG_RUNTIME_DIR="+run)
	shell := func(before string, args ...string) (string, error) {
		cmd := exec.Command("/bin/sh", append([]string{"-c", before + "\nexec \"$0\" \"$@\"", filepath.Join(s.bin, "sbxhost")}, args...)...)
		cmd.Dir, cmd.Env = s.dir+"/project", s.env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	sbxhost := func(args ...string) string {
		t.Helper()
		out, err := shell("", args...)
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return out
	}
	t.Cleanup(func() { sbxhost("serve", "-stop") })
	server := func() int {
		pid, _ := strconv.Atoi(procText(t, run+"/sbxhost/lock"))
		return pid
	}
	const confine = "exec setpriv --no-new-privs \"$0\" \"$@\""
	begin := func(before, session string) (background int) {
		t.Helper()
		if out, err := shell(before, "exec", "-config", s.dir+"/c.hcl", "-session", session, "-keep", "--", "sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 &"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		until(t, "the background process", func() bool {
			for line := range strings.Lines(sbxhost("sessions", "list", "-v", session)) {
				if strings.HasSuffix(line, " sleep 1000\n") {
					background, _ = strconv.Atoi(strings.Fields(line)[1])
				}
			}
			return background != 0
		}, func() string { return session })
		return background
	}
	t.Cleanup(func() { shell("", "sessions", "rm", "one", "two", "confined") })

	one, two, confined := begin("", "one"), begin("umask 027", "two"), begin(confine, "confined")
	first := server()
	for _, pid := range []int{one, two} {
		if !slices.Contains(parents(pid), first) {
			t.Errorf("the server %d does not hold %d", first, pid)
		}
	}
	if slices.Contains(parents(confined), first) {
		t.Error("it holds what somebody has begun who is confined otherwise")
	}
	if out, err := shell(confine, "exec", "-config", s.dir+"/c.hcl", "-session", "one", "-keep", "--", "true"); err == nil || !strings.Contains(out, "no_new_privs") {
		t.Errorf("somebody confined otherwise joins: %v, %s", err, out)
	}
	if out, err := s.sbx("", "--", "echo", "served").CombinedOutput(); err != nil || string(out) != "served\n" {
		t.Errorf("%v, %s", err, out)
	}
	// A session that is not kept is the server's, too, and without it as good.
	const ancestors = `p=$$; while [ $p -gt 1 ]; do echo $p; p=$(cut -d" " -f4 /proc/$p/stat); done`
	for before, served := range map[string]bool{"": true, "export SBX_SERVE=off": false, confine: false} {
		out, err := shell(before, "exec", "-config", s.dir+"/c.hcl", "-session", "plain", "-sandbox", "open", "--", "sh", "-c", ancestors)
		if has := slices.Contains(strings.Fields(out), strconv.Itoa(first)); err != nil || has != served {
			t.Errorf("%q: %v, %v, %q", before, has, err, out)
		}
	}
	status := sbxhost("serve", "-status")
	if !strings.Contains(status, "it holds session one ") || !strings.Contains(status, "it holds session two ") || strings.Contains(status, "it holds session confined") {
		t.Errorf("%s", status)
	}

	program := filepath.Join(s.bin, "sbxhost")
	if out, err := exec.Command("sh", "-c", `cp "$0" "$0.new" && mv "$0.new" "$0"`, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := shell("", "exec", "-config", s.dir+"/c.hcl", "-session", "one", "-keep", "--", "true"); err == nil || !strings.Contains(out, "sbxhost sessions rm one ends it") {
		t.Errorf("another program joins: %v, %s", err, out)
	}
	until(t, "another server", func() bool {
		s.sbx("", "--", "true").Run()
		return server() != first
	}, func() string { return sbxhost("serve", "-status") })
	sbxhost("sessions", "rm", "two")
	if !gone(two) {
		t.Error("what ran in a session that was removed is left")
	}
	if stat := procFile(one, "stat"); stat == "" {
		t.Error("and what ran in another one has gone with it")
	}
	sbxhost("sessions", "rm", "one")
	if !gone(one) || !gone(first) {
		t.Error("the server, or what it held, does not end")
	}
	if stat := procFile(confined, "stat"); stat == "" {
		t.Error("the session of another server has ended")
	}
}

func procText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// statOf is a field of a process's stat, counted from 1.
func statOf(t *testing.T, pid string, field int) string {
	_, rest, _ := strings.Cut(procText(t, "/proc/"+pid+"/stat"), ") ")
	return strings.Fields(rest)[field-3]
}

// A command has its own client's umask, limits, priority and processors, as by exec, also while others run, and
// what is written for it has its client's umask.
func TestServeGivesUsage(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	const show = "umask; ulimit -f; ulimit -s; ulimit -l; nice; grep Cpus_allowed: /proc/self/status; cat /proc/self/oom_score_adj"
	for _, sandbox := range []string{"fast", "open"} {
		for _, before := range []string{"", "umask 0027", "ulimit -f 123456; ulimit -S -s 4096", "renice -n 7 $$ >/dev/null", "taskset -p 1 $$ >/dev/null", "echo 300 >/proc/self/oom_score_adj"} {
			var got [2]string
			for i, way := range []string{"export SBX_SERVE=on", "export SBX_SERVE=off"} {
				result := fmt.Sprintf("%s/home/%d.json", s.dir, i)
				cmd := s.sbx(way+"\n"+before, "-quiet", "-sandbox", sandbox, "-result", result, "-c", show)
				out, err := cmd.Output() // what sbxhost says comes in any order
				info, lost := os.Stat(result)
				if err != nil || lost != nil {
					t.Fatalf("%s %q: %v, %v: %s", way, before, err, lost, out)
				}
				got[i] = string(out) + info.Mode().String()
			}
			if got[0] != got[1] {
				t.Errorf("%s, %q: served\n%s\nand alone\n%s", sandbox, before, got[0], got[1])
			}
		}
	}
	status := exec.Command(filepath.Join(s.bin, "sbxhost"), "serve", "-status")
	status.Env = s.env
	if out, err := status.CombinedOutput(); err != nil || strings.Contains(string(out), "Not served") {
		t.Errorf("%v: %s", err, out)
	}
}

// What a client gets is the command's: bytes, status, signals, and its end.
func TestServeResults(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	for script, want := range map[string]struct {
		status      int
		out, stderr string
	}{
		"echo out; echo err >&2; exit 3":         {3, "out\n", "err\n"},
		"kill -TERM $$":                          {143, "", ""},
		"cat; pwd | sed 's:.*/::'":               {0, "input\nproject\n", ""},
		"exec no-such-program 2>/dev/null":       {127, "", ""},
		"echo $GIVEN-$HOME | sed s:$HOME:home: ": {0, "value-home\n", ""},
	} {
		cmd := s.sbx("", "-quiet", "-env", "GIVEN=value", "-c", script)
		var out, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("input\n"), &out, &stderr
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want.status || out.String() != want.out || stderr.String() != want.stderr {
			t.Errorf("%q: %d, %q, %q", script, got, out.String(), stderr.String())
		}
	}
	// A signal to the client is one to the command; the client's death ends it.
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		word := fmt.Sprintf("3333.%d%d", os.Getpid(), sig)
		cmd, stdout := s.begun(t, nil, "echo begun; exec sleep "+word)
		cmd.Process.Signal(sig)
		io.Copy(io.Discard, stdout) // to its end, which is that of all who have it
		cmd.Wait()
		if sig == syscall.SIGTERM && cmd.ProcessState.ExitCode() != 143 {
			t.Error(cmd.ProcessState)
		}
		if left := named("sleep\x00" + word); len(left) > 0 {
			t.Errorf("after %v to the client: %d", sig, left)
		}
	}
}

// The end of the server is the end of its commands, and of nothing else.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	const clients = 20
	word := fmt.Sprintf("4444.%d", os.Getpid())
	var running []*exec.Cmd
	var stderr [clients]bytes.Buffer
	for i := range clients {
		cmd, stdout := s.begun(t, &stderr[i], "echo begun; exec sleep "+word)
		running = append(running, cmd)
		defer io.Copy(io.Discard, stdout)
	}
	if other := exec.Command(filepath.Join(s.bin, "sbxhost"), "serve"); true {
		other.Env = s.env
		if out, err := other.CombinedOutput(); err == nil || !strings.Contains(string(out), "another sbxhost serve runs") {
			t.Errorf("a second server: %v, %s", err, out)
		}
	}
	// One that is stopped is not waited for.
	s.server.Process.Signal(syscall.SIGSTOP)
	if out, err := s.sbx("", "--", "echo", "alone").Output(); err != nil || string(out) != "alone\n" {
		t.Errorf("%q, %v", out, err)
	}
	s.server.Process.Signal(syscall.SIGCONT)
	s.server.Process.Kill()
	s.server.Wait()
	for i, cmd := range running {
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != 125 || !strings.Contains(stderr[i].String(), "sbx: sbxhost serve has ended") {
			t.Errorf("%v, %q", cmd.ProcessState, stderr[i].String())
		}
	}
	for _, pid := range named("sleep\x00" + word) { // who was killed a moment ago
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
			unix.Close(fd)
		}
	}
	if left := named("sleep\x00" + word); len(left) > 0 {
		t.Errorf("%d live on", left)
	}
	// Its socket is there still, and nobody answers.
	if out, err := s.sbx("", "--", "echo", "alone").Output(); err != nil || string(out) != "alone\n" {
		t.Errorf("%q, %v", out, err)
	}
	s.start(t)
	if out, err := s.sbx("", "--", "echo", "served").Output(); err != nil || string(out) != "served\n" {
		t.Errorf("%q, %v", out, err)
	}
	// A signal that ends it ends what it runs as a signal does.
	cmd, stdout := s.begun(t, nil, "echo begun; exec sleep "+word)
	s.server.Process.Signal(syscall.SIGTERM)
	io.Copy(io.Discard, stdout)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Error(cmd.ProcessState)
	}
	if err := s.server.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.dir + "/run/sbxhost/serve"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its socket: %v", err)
	}
}

// A host that is no credential's any more does not get it from a Host that was made before.
func TestServeFollowsACredential(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	if _, err := os.Stat(trustedFile); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "TOKEN=secret")
	configure := func(hosts string) {
		t.Helper()
		if err := os.WriteFile(s.dir+"/c.hcl", []byte(`credential "c" {
  hosts = ["`+hosts+`"]
  value = "Bearer ${env.TOKEN}"
}
sandbox "fast" {
  engine             = "native"
  network            = ["a.example", "b.example"]
  credentials = ["c"]
}
`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const show = `cat "$SSL_CERT_FILE"`
	// For whom the engine has a certificate, which is the last one of those that a command trusts.
	of := func(out []byte, err error) []string {
		t.Helper()
		for block, rest := pem.Decode(out); block != nil; block, rest = pem.Decode(rest) {
			out = block.Bytes
		}
		last, parseErr := x509.ParseCertificate(out)
		if err != nil || parseErr != nil {
			t.Fatal(err, parseErr)
		}
		return last.PermittedDNSDomains
	}
	kept := func(script string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), "exec", "-config", s.dir+"/c.hcl", "-session", "k", "-keep", "-c", script)
		cmd.Dir, cmd.Env = s.dir+"/project", s.env
		return cmd
	}
	end := func() {
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), "sessions", "rm", "k")
		cmd.Env = s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	defer end()
	for _, host := range []string{"a.example", "b.example"} {
		configure(host)
		if got := of(s.sbx("", "-c", show).Output()); !slices.Equal(got, []string{host}) {
			t.Errorf("served: %q, want %q", got, host)
		}
		if host == "b.example" {
			if out, err := kept("true").CombinedOutput(); err == nil || !strings.Contains(string(out), `was begun with another credential "c"`) || !strings.Contains(string(out), "sessions rm k") {
				t.Errorf("in a session with processes: %v\n%s", err, out)
			}
			end()
		}
		if got := of(kept("sleep 1000 </dev/null >/dev/null 2>&1 & " + show).Output()); !slices.Equal(got, []string{host}) {
			t.Errorf("kept: %q, want %q", got, host)
		}
	}
}

// Many commands leave the server's descriptors and memory where they were.
func TestServeMany(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	rounds := 1000
	if testing.Short() {
		rounds = 60
	}
	run := func() {
		if out, err := s.sbx("", "--", "echo", "x").Output(); err != nil || string(out) != "x\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
	all := func(n int) {
		var together sync.WaitGroup
		for range n {
			together.Go(run)
		}
		together.Wait()
	}
	resident := func() (kib int) {
		_, rest, _ := strings.Cut(procFile(s.server.Process.Pid, "status"), "VmRSS:")
		fmt.Sscan(rest, &kib)
		return kib
	}
	descriptors := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.server.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	all(50)
	for range rounds / 2 {
		run()
	}
	kib, files := resident(), descriptors()
	for range rounds / 2 {
		run()
	}
	all(50)
	for range 3 {
		run()
	}
	if more := resident() - kib; more > 8<<10 {
		t.Errorf("%d KiB more than %d", more, kib)
	}
	if more := descriptors() - files; more > 5 {
		t.Errorf("%d descriptors more than %d", more, files)
	}
}

// A server that nobody wants ends by itself, and so does one whose executable was replaced.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	s := newServing(t, "-idle", "1s")
	if out, err := s.sbx("", "--", "echo", "x").Output(); err != nil || string(out) != "x\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := s.server.Wait(); err != nil {
		t.Error(err)
	}
	s.start(t)
	program := filepath.Join(s.bin, "sbxhost")
	// Not by this process: one that another test starts then could have the program open to write.
	if out, err := exec.Command("sh", "-c", `cp "$0" "$0.new" && mv "$0.new" "$0"`, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Whoever asks it tells it, also who is confined otherwise, or gone before it looks.
	confined := s.sbx("", "--", "echo", "x")
	confined.Path, confined.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 500; exec "$0" "$@"`, confined.Path}, confined.Args[1:]...)
	if out, err := confined.Output(); err != nil || string(out) != "x\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := s.server.Wait(); err != nil {
		t.Error(err)
	}
}
