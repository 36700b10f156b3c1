package test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The limit of each command here, its grace, and how much later sbxhost has ended,
// whatever happens to what runs the command.
const (
	hurtLimit = 400 * time.Millisecond
	hurtGrace = 200 * time.Millisecond
	hurtBound = hurtLimit + hurtGrace + 5*time.Second
	// A machine that is busy with other tests takes longer for everything. What is
	// looked for takes for ever.
	hurtSlack = 2 * time.Minute
)

// hurtPlace is a home and a workspace, in which its processes have their directories.
type hurtPlace struct{ dir, bin string }

func newHurtPlace(t *testing.T, program, engine string) *hurtPlace {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbxhost-hurt-") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &hurtPlace{dir, program}
	for _, sub := range []string{"home", "project"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf("sandbox \"fast\" {\n  engine = %q\n  limits {\n    timeout = %q\n    grace = %q\n  }\n}\n", engine, hurtLimit, hurtGrace)
	if err := os.WriteFile(filepath.Join(dir, "c.hcl"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// hurtRun is sbxhost with a command that never ends, and what it has written.
type hurtRun struct {
	*exec.Cmd
	begun       time.Time
	out, errs   *os.File
	diagnostics lockedBuffer
	read        chan struct{} // closed at the end of errs
}

func (p *hurtPlace) start(t *testing.T, args ...string) *hurtRun {
	t.Helper()
	r := &hurtRun{read: make(chan struct{})}
	r.Cmd = exec.Command(p.bin, append([]string{"exec", "-config", filepath.Join(p.dir, "c.hcl")}, args...)...)
	r.Dir = filepath.Join(p.dir, "project")
	r.Env = []string{"HOME=" + filepath.Join(p.dir, "home"), "PATH=/usr/bin:/bin", "TMPDIR=/tmp", "SBX_SERVE=off"}
	var out, errs *os.File
	var err error
	if r.out, out, err = os.Pipe(); err == nil {
		r.errs, errs, err = os.Pipe()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Stdout, r.Stderr = out, errs
	r.begun = time.Now()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	errs.Close()
	go func() {
		io.Copy(&r.diagnostics, r.errs)
		close(r.read)
	}()
	return r
}

// end waits for sbxhost to end, and for nobody to have its output open. It fails where
// that takes longer than bound, and kills.
func (r *hurtRun) end(t *testing.T, bound time.Duration) (status int, took time.Duration) {
	t.Helper()
	late := time.AfterFunc(bound+hurtSlack, func() { r.Process.Signal(syscall.SIGQUIT); time.AfterFunc(time.Second, func() { r.Process.Kill() }) })
	r.Wait()
	took = time.Since(r.begun)
	if !late.Stop() {
		t.Errorf("sbxhost had not ended after %v", took)
	}
	r.out.SetReadDeadline(time.Now().Add(hurtSlack))
	if _, err := io.Copy(io.Discard, r.out); err != nil {
		t.Errorf("somebody has the command's output open: %v", err)
	}
	r.out.Close()
	r.errs.SetReadDeadline(time.Now().Add(hurtSlack))
	<-r.read
	r.errs.Close()
	return r.ProcessState.ExitCode(), took
}

// offspring lists the children of all threads of a process.
func offspring(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

func procFile(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	return string(text)
}

// hurtKinds are the processes that run a command, by the engine, each the parent of the next.
var hurtKinds = map[string][]string{
	"native": {"engine", "holder", "init"},
	"bwrap":  {"engine", "launcher", "init"},
}

// victim finds one of the processes that run a command; zero where there is none yet.
func (p *hurtPlace) victim(sbxhost int, kind string) int {
	engine := executed(sbxhost, p.bin)
	if kind == "engine" {
		return engine
	}
	// A holder that an earlier command of the session has started is nobody's child.
	starter := p.holder()
	if starter == 0 && engine != 0 {
		starter = executed(engine, "")
	}
	if kind != "init" || starter == 0 {
		return starter
	}
	return executed(starter, "")
}

// executed is a child that is no mere fork any more, with that executable where one is named.
func executed(parent int, program string) int {
	for _, child := range offspring(parent) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", child))
		words := procFile(child, "cmdline")
		if words != "" && words != procFile(parent, "cmdline") && (program == "" || exe == program) {
			return child
		}
	}
	return 0
}

// holder is the number of the session's holder, or zero.
func (p *hurtPlace) holder() int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	dir, err := unix.Open(filepath.Dir(filepath.Join(p.dir, holderLock())), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(dir)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", dir)}) != nil {
		return 0
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

// holderLock is what the session's holder has locked.
func holderLock() string {
	return fmt.Sprintf("home/.cache/sbxhost/sessions/n-s/holder/u%d/lock", os.Geteuid())
}

// processes are those whose working directory lies in the place.
func (p *hurtPlace) processes() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if to, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd")); err == nil && strings.HasPrefix(to, p.dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// named are the processes with a word in their command line, which have not ended.
func named(word string) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		if text, err := os.ReadFile(line); err == nil && strings.Contains(string(text), word) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestHurtProcesses stops and kills each process that runs a command, at any moment.
// sbxhost ends in time, says why, and leaves nothing of the command; and the next
// command in the same session runs.
func TestHurtProcesses(t *testing.T) {
	requireBwrap(t)
	times := 50
	if testing.Short() {
		times = 2
	}
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	program := filepath.Join(bin, "sbxhost")
	for engine, kinds := range hurtKinds {
		for _, session := range []bool{false, true} {
			for i, kind := range kinds {
				at := kind
				if engine == "native" && !session { // which has no holder: the init is the engine's child
					if kind == "holder" {
						continue
					} else if kind == "init" {
						at = kinds[i-1]
					}
				}
				for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
					t.Run(fmt.Sprintf("%s/session=%v/%s/%s", engine, session, kind, unix.SignalName(sig)), func(t *testing.T) {
						t.Parallel()
						p := newHurtPlace(t, program, engine)
						limit, worst, hits := hurtLimit, time.Duration(0), 0
						for n := 0; n < times || hits == 0 && n < 50; n++ {
							took, hit := p.hurt(t, n, session, at, sig, limit)
							worst = max(worst, took-limit)
							if hit {
								hits++
							} else if hits == 0 && limit < time.Minute { // on a busy machine the time is over first
								limit += limit / 2
							}
						}
						t.Logf("%d were hit; the slowest took %v of %v more than its time", hits, worst, hurtBound-hurtLimit)
						if hits == 0 {
							t.Error("none was hit")
						}
					})
				}
			}
		}
	}
}

func (p *hurtPlace) hurt(t *testing.T, n int, session bool, kind string, sig syscall.Signal, limit time.Duration) (took time.Duration, hit bool) {
	t.Helper()
	word := fmt.Sprintf("1000.%d%d", os.Getpid(), rand.Uint32())
	script := "sleep " + word
	if rand.IntN(2) == 0 {
		script = "trap '' TERM; sleep " + word + "; sleep " + word
	}
	var in []string
	if session {
		in = []string{"-session", "s"}
	}
	// At its birth, soon, and later.
	after := time.Duration(0)
	switch n % 3 {
	case 1:
		after = time.Duration(rand.Int64N(int64(limit + hurtGrace)))
	case 2:
		after = time.Duration(rand.Int64N(int64(4 * time.Millisecond)))
	}
	r := p.start(t, append(slices.Clone(in), "-timeout", limit.String(), "-c", script)...)
	over := make(chan struct{})
	struck, victim := make(chan bool, 1), make(chan int, 1)
	go func() {
		for {
			select {
			case <-over:
				struck <- false
				return
			default:
			}
			pid := p.victim(r.Process.Pid, kind)
			if pid == 0 {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if after > 0 {
				select {
				case <-over:
				case <-time.After(after): // the moment is what is tried
				}
			}
			victim <- fd
			struck <- unix.PidfdSendSignal(fd, sig, nil, 0) == nil
			return
		}
	}()
	bound := limit + hurtBound - hurtLimit
	status, took := r.end(t, bound)
	close(over)
	hit = <-struck
	what := fmt.Sprintf("%d: %v %v after it was there: status %d after %v, stderr %q", n, hit, after, status, took, r.diagnostics.String())
	if status != 124 && status != 125 || strings.TrimSpace(r.diagnostics.String()) == "" {
		t.Error(what)
	}
	if took > bound+hurtSlack {
		t.Error(what)
	}
	select {
	case fd := <-victim:
		if !session { // in which it may be anybody's; the next command sees to it
			if gone, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(hurtSlack.Milliseconds())); gone == 0 {
				t.Errorf("%s: it lives on", what)
			}
		}
		unix.Close(fd)
	default: // there was none
	}
	var left []int
	for range 6000 { // of who was killed a moment ago
		if left = named(word); len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, pid := range left {
		t.Errorf("%s: %d lives on: %q", what, pid, procFile(pid, "cmdline"))
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if session {
		next := p.start(t, append(slices.Clone(in), "-timeout", "5m", "--", "echo", "next")...)
		if status, took := next.end(t, 5*time.Minute); status != 0 {
			t.Errorf("%s; the next command: status %d after %v, %s", what, status, took, next.diagnostics.String())
		}
	}
	return took, hit
}

// TestHeldLocks has somebody else hold each lock that a command needs: its time limit
// and signals end the wait.
func TestHeldLocks(t *testing.T) {
	requireBwrap(t)
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	session := "home/.cache/sbxhost/sessions/n-s/"
	for name, path := range map[string]string{
		"session": session + "lock",
		"holder":  holderLock(),
		"audit":   "audit/log",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newHurtPlace(t, filepath.Join(bin, "sbxhost"), "native")
			path := filepath.Join(p.dir, path)
			config, err := os.OpenFile(filepath.Join(p.dir, "c.hcl"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(config, "audit {\n  path = %q\n}\n", filepath.Join(p.dir, "audit/log"))
			config.Close()
			run := func(args ...string) *hurtRun { return p.start(t, append([]string{"-session", "s"}, args...)...) }
			first := run("-timeout", "5m", "--", "true")
			if status, _ := first.end(t, 5*time.Minute); status != 0 {
				t.Fatal(first.diagnostics.String())
			}
			lock, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			until(t, "the lock", func() bool { return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }, func() string { return path })

			limited := run("--", "true")
			if status, took := limited.end(t, hurtBound); status != 124 || limited.diagnostics.String() == "" {
				t.Errorf("status %d after %v, stderr %q", status, took, limited.diagnostics.String())
			}

			signalled := run("-timeout", "10m", "--", "true")
			until(t, "it to want the lock", func() bool {
				// Who waits for a session says so, and has its lock open for moments alone.
				return name == "session" && strings.Contains(signalled.diagnostics.String(), "waiting for session") ||
					name != "session" && p.opened(path)
			}, signalled.diagnostics.String)
			signalled.begun = time.Now()
			signalled.Process.Signal(syscall.SIGTERM)
			const soon = 4 * time.Second
			if status, took := signalled.end(t, soon); status != 143 {
				t.Errorf("status %d after %v, stderr %q", status, took, signalled.diagnostics.String())
			}

			unix.Flock(int(lock.Fd()), unix.LOCK_UN)
			last := run("-timeout", "5m", "--", "true")
			if status, _ := last.end(t, 5*time.Minute); status != 0 {
				t.Errorf("with the lock given up: %s", last.diagnostics.String())
			}
		})
	}
}

// opened reports whether a process of the place has a file open.
func (p *hurtPlace) opened(path string) bool {
	for _, pid := range p.processes() {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && to == path {
				return true
			}
		}
	}
	return false
}
