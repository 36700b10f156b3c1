package sandboxinit

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

func tracing(t testing.TB) []byte {
	t.Helper()
	f, err := seccomp.Tracing(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return f.Bytes()
}

// runTraced is run with the calls that failed.
func (w way) runTraced(t testing.TB, cmd Command) (result, []traced.Call) {
	t.Helper()
	cmd.Trace = tracing(t)
	s := w.launch(t, nil, false)
	r := s.run(t, cmd)
	return r, s.Traced()
}

// What a shell, its children and its threads' programs fail at is told, and nothing that they
// succeed at; their ends, arguments and output stay what they are.
func TestTrace(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, limits := range limitSets {
			cmd := sh(`cd /usr; cat no-such-file /none/at/all 2>/dev/null; test -d lib/none; mkdir /proc/x 2>/dev/null
exec 2>/dev/null; ./absent; ls /usr/bin >/dev/null; echo "$1 $$"; exit 7`, "word")
			cmd.Rlimits = limits
			r, calls := w.runTraced(t, cmd)
			if r.err != nil || r.status != (Status{Code: 7}) || !strings.HasPrefix(r.stdout, "word ") {
				t.Fatalf("%+v", r)
			}
			for _, want := range []traced.Call{
				{Wants: traced.Read, Target: "/usr/no-such-file", Errno: syscall.ENOENT},
				{Wants: traced.Read, Target: "/none/at/all", Errno: syscall.ENOENT},
				{Wants: traced.Read, Target: "/usr/lib/none", Errno: syscall.ENOENT},
				{Wants: traced.Write, Target: "/proc/x", Errno: syscall.ENOENT},
				{Wants: traced.Execute, Target: "/usr/absent", Errno: syscall.ENOENT},
			} {
				if !slices.Contains(calls, want) {
					t.Errorf("limits %v: %v is missing in %v", limits, want, calls)
				}
			}
			if slices.ContainsFunc(calls, func(c traced.Call) bool { return c.Target == "/usr/bin" }) {
				t.Errorf("one that succeeded: %v", calls)
			}
		}
	})
}

// A command that cannot be executed is refused as it is without a tracer.
func TestTraceOfNoCommand(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for name, want := range map[string]Op{"none-such": OpLookup, "/etc/passwd": OpExec, "/none": OpExec} {
			cmd := Command{Args: []string{name}, Env: []string{testPath}}
			plain := asExecError(t, w.run(t, cmd).err)
			r, _ := w.runTraced(t, cmd)
			if got := asExecError(t, r.err); *got != *plain || want != OpLookup && got.Op == OpLookup {
				t.Errorf("%s: %v, without a tracer %v", name, got, plain)
			}
		}
		cmd := sh("echo ran")
		cmd.Trace = make([]byte, 8) // does not end with a return
		if r := w.run(t, cmd); asExecError(t, r.err).Op != OpTrace || r.stdout != "" {
			t.Errorf("%+v", r)
		}
	})
}

// Who kills the tracer kills the command with all it has started, and the init tells it.
func TestTracerKilled(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		cmd := sh("sleep 1000 & echo $PPID; wait")
		cmd.Trace = tracing(t)
		s := w.launch(t, nil, false)
		s.start(t, cmd)
		s.line(t)
		tracer := descendant(t, s.launcher.Process.Pid, "sbxhost-init-trace")
		if err := syscall.Kill(tracer, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if status, err := s.Wait(); err != nil || status.Signal != int(syscall.SIGKILL) {
			t.Errorf("%+v, %v", status, err)
		}
		if left, _ := io.ReadAll(s.stdout); len(left) > 0 { // its end is that of all who hold it
			t.Errorf("%q", left)
		}
	})
}

// An init ends at once, and does not wait for the command, or for its tracer.
func TestKillOfTraced(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		cmd := sh("echo begun; exec sleep 1000")
		cmd.Trace = tracing(t)
		s := w.launch(t, nil, false)
		s.start(t, cmd)
		s.line(t)
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if status, err := s.Wait(); err != nil || status.Signal != int(syscall.SIGKILL) || s.Traced() != nil {
			t.Errorf("%+v, %v, %v", status, err, s.Traced())
		}
	})
}

// descendant finds the process with a word in its command line.
func descendant(t testing.TB, pid int, word string) int {
	t.Helper()
	for _, child := range proc.Children(pid) {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline")
		if slices.Contains(strings.Split(string(line), "\x00"), word) {
			return child
		}
		if found := descendant(t, child, word); found != 0 {
			return found
		}
	}
	return 0
}

// The command can do to its tracer what it can do to the init: nothing.
func TestTracerIsHidden(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		r, _ := w.runTraced(t, sh(`cat /proc/$PPID/environ /proc/$PPID/maps; ls /proc/$PPID/fd /proc/$PPID/cwd/; exit 0`))
		if r.err != nil || r.stdout != "" && os.Getuid() != 0 {
			t.Errorf("%+v", r)
		}
		if scopeWorks(t) {
			if r, _ = w.runTraced(t, sh(`kill -STOP $PPID && echo stopped; kill -KILL $PPID && echo killed; exit 3`)); r.status.Code != 3 || r.stdout != "" {
				t.Errorf("%+v", r)
			}
		}
	})
}

// scopeWorks reports whether this kernel keeps signals in a domain.
func scopeWorks(t testing.TB) bool {
	t.Helper()
	cmd := sh("true")
	cmd.Scope = true
	s := direct.launch(t, nil, false)
	s.start(t, cmd)
	return s.Scoped()
}

// What the first filter refuses is never turned into a call that is traced.
func TestTraceUnderFilter(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		cmd := sh("mkdir /tmp/x-$$; mkdir /tmp/y; exit 5")
		for _, n := range []uint32{unix.SYS_MKDIRAT, mkdirNumber} {
			cmd.Filter = filterOf(n)
			r, calls := w.runTraced(t, cmd)
			if n == mkdirNumber && (!strings.Contains(r.stderr, "not permitted") || slices.ContainsFunc(calls, func(c traced.Call) bool { return c.Target == "/tmp/y" })) {
				t.Errorf("%+v %v", r, calls)
			}
			if r.status.Code != 5 {
				t.Errorf("%+v", r)
			}
		}
	})
}

// Many processes, threads, and programs that replace one another.
func TestTraceOfMany(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		r, calls := w.runTraced(t, sh(`i=0; while [ $i -lt 1000 ]; do (exit 3); i=$((i+1)); done; (exec cat /none/last 2>/dev/null); echo done`))
		if r.err != nil || r.status.Code != 0 || r.stdout != "done\n" || !slices.ContainsFunc(calls, func(c traced.Call) bool { return c.Target == "/none/last" }) {
			t.Errorf("%+v %v", r, calls)
		}
	})
	dir := t.TempDir()
	// A static program whose threads fail at different files, one of which then executes a
	// shell in the place of all of them: and one that forks as vfork does.
	source := `package main
import ("os"; "os/exec"; "fmt"; "runtime"; "sync"; "syscall")
func main() {
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { runtime.LockOSThread(); for range 100 { os.Open(fmt.Sprint("/none/", i)) } })
	}
	all.Wait()
	out, err := exec.Command("/bin/sh", "-c", "echo child").Output()
	fmt.Println(string(out), err)
	_, err = os.StartProcess("/none/program", []string{"x"}, &os.ProcAttr{})
	fmt.Println(err)
	done := make(chan bool)
	go func() { runtime.LockOSThread(); syscall.Exec("/bin/sh", []string{"sh", "-c", "cat /none/after; echo replaced"}, nil); done <- true }()
	<-done
}`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "threads"), filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, calls := direct.runTraced(t, Command{Args: []string{filepath.Join(dir, "threads")}, Env: []string{testPath}})
	if r.err != nil || r.status.Code != 0 || !strings.Contains(r.stdout, "child\n <nil>") || !strings.HasSuffix(r.stdout, "replaced\n") {
		t.Errorf("%+v", r)
	}
	for target, wants := range map[string]traced.Operation{"/none/0": traced.Read, "/none/19": traced.Read, "/none/program": traced.Execute, "/none/after": traced.Read} {
		if !slices.Contains(calls, traced.Call{Wants: wants, Target: target, Errno: syscall.ENOENT}) {
			t.Errorf("%s is missing in %v", target, calls)
		}
	}
}

// Jobs are stopped and continued as they are without a tracer.
func TestTraceOfJobs(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		s := w.launch(t, slave, true)
		slave.Close()
		cmd := sh(`set -m; stty -echo; cat /none; sleep 1000 & kill -STOP $!
while ! grep -q 'State:.[Tt]' /proc/$!/status; do :; done; jobs >/dev/null
kill -CONT $!; while grep -q 'State:.[Tt]' /proc/$!/status; do :; done; echo continued
kill -TERM $!; wait $!; echo ended
cat <&1 & while ! grep -q 'State:.[Tt]' /proc/$!/status; do :; done; echo stopped; fg %cat; echo over`)
		cmd.TTY, cmd.Trace = true, tracing(t)
		s.start(t, cmd)
		lines := bufio.NewScanner(master)
		expect := func(want string) {
			t.Helper()
			for lines.Scan() {
				if strings.Contains(lines.Text(), want) {
					return
				}
			}
			t.Fatalf("terminal closed before %q: %v", want, lines.Err())
		}
		expect("continued")
		expect("ended")
		expect("stopped") // by SIGTTIN
		io.WriteString(master, "typed\n")
		expect("typed")
		io.WriteString(master, "\x04")
		expect("over")
		if status, err := s.Wait(); err != nil || status.Code != 0 {
			t.Errorf("%+v, %v", status, err)
		}
		if !slices.Contains(s.Traced(), traced.Call{Wants: traced.Read, Target: "/none", Errno: syscall.ENOENT}) {
			t.Errorf("%v", s.Traced())
		}
	})
}
