package sandboxinit

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// daemon leaves a process in another session that holds stdout open.
const daemon = `setsid sh -c 'sleep 1000 & sh -c "trap \"\" TERM HUP INT; echo daemon; sleep 1000" &' & `

func TestNothingOutlivesTheCommand(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for name, end := range map[string]func(*testing.T, *sandbox){
			"exit":   func(*testing.T, *sandbox) {},
			"Kill":   func(t *testing.T, s *sandbox) { s.Kill() },
			"Close":  func(t *testing.T, s *sandbox) { s.Close() },
			"signal": func(t *testing.T, s *sandbox) { s.Signal(9) },
		} {
			t.Run(name, func(t *testing.T) {
				wait := "sleep 1000"
				if name == "exit" {
					wait = "read x"
				}
				stdin, feed, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				s := w.launch(t, stdin, false)
				stdin.Close()
				s.start(t, sh(daemon+wait+"; exit 4"))
				if got := s.line(t); got != "daemon" {
					t.Fatalf("got %q", got)
				}
				feed.Close()
				end(t, s)
				// EOF comes when the last holder of the pipe is dead.
				if rest, err := io.ReadAll(s.stdout); err != nil || len(rest) > 0 {
					t.Errorf("rest of stdout %q, %v", rest, err)
				}
				status, err := s.Wait()
				switch name {
				case "exit":
					if err != nil || status.Ended == 0 || status != (Status{Code: 4, Ended: status.Ended}) {
						t.Errorf("%+v, %v", status, err)
					}
				case "Close":
					if !errors.Is(err, ErrInitLost) {
						t.Errorf("%v, want ErrInitLost", err)
					}
				default:
					if err != nil || status != (Status{Code: -1, Signal: 9}) {
						t.Errorf("%+v, %v", status, err)
					}
				}
			})
		}
	})
}

// Orphans are collected while the command runs.
func TestReapsOrphans(t *testing.T) {
	bwrapLean.require(t)
	t.Parallel()
	r := bwrapLean.mustRun(t, sh(`i=0; while [ $i -lt 50 ]; do (true &); i=$((i+1)); done
n=0; while grep -l "^State:.Z" /proc/[0-9]*/status >/dev/null 2>&1 && [ $n -lt 500 ]; do n=$((n+1)); done
[ $n -lt 500 ] && echo clean`))
	if r.stdout != "clean\n" {
		t.Errorf("%+v", r)
	}
}

func TestInitIsOutOfReach(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		if w.launcher == nil && os.Getuid() == 0 {
			return // a command with all of root's capabilities is not kept out
		}
		for _, try := range []string{
			"cat /proc/$PPID/mem", "readlink /proc/$PPID/fd/4", "cat /proc/$PPID/fd/4", "readlink /proc/$PPID/exe",
			"cat /proc/$PPID/environ", "ls /proc/$PPID/root/", "ls /proc/$PPID/cwd/", "cat /proc/$PPID/maps",
			"echo 0 >/proc/$PPID/oom_score_adj && ls /proc/$PPID/map_files/",
		} {
			if r := w.run(t, sh(try)); r.err != nil || r.status.Code == 0 || r.stdout != "" {
				t.Errorf("%s: %+v", try, r)
			}
			// The control: the same on the command's own parent shell.
			if strings.HasPrefix(try, "readlink") {
				if r := w.run(t, sh(`sh -c 'readlink /proc/$PPID/exe; :'`)); r.stdout == "" {
					t.Errorf("control: %+v", r)
				}
			}
		}
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		for _, what := range []string{"ptrace", "vm_readv", "pidfd_getfd"} {
			s := w.launch(t, self, false)
			r := s.run(t, Command{Args: []string{"/proc/self/fd/0", "sandboxinit-probe", what}})
			if r.stdout != "operation not permitted\n" {
				t.Errorf("%s: %+v", what, r)
			}
		}
	})
}

func TestSignalStorm(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		if w.launcher == nil {
			return // an init that is not pid 1 can be killed by its own uid
		}
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		s := w.launch(t, self, false)
		r := s.run(t, Command{Args: []string{"/proc/self/fd/0", "sandboxinit-probe", "storm"}})
		if r.err != nil || r.status != (Status{}) || r.stdout != "sent\n" || r.diag != "" {
			t.Errorf("%+v", r)
		}
		r = w.run(t, sh(`trap : HUP INT QUIT TERM USR1 USR2; for s in HUP INT QUIT TERM USR1 USR2 KILL STOP; do kill -$s 1; done; exit 6`))
		if r.err != nil || r.status != (Status{Code: 6}) || r.diag != "" {
			t.Errorf("passed signals: %+v", r)
		}
	})
}

func TestRlimits(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		limits := []Rlimit{
			{unix.RLIMIT_CORE, 0, 0}, {unix.RLIMIT_NOFILE, 100, 200}, {unix.RLIMIT_CPU, 33, 44},
			{unix.RLIMIT_FSIZE, 1 << 20, 1 << 21}, {unix.RLIMIT_AS, 256 << 20, 512 << 20},
		}
		cmd := sh("cat /proc/self/limits")
		cmd.Rlimits = limits
		r := w.mustRun(t, cmd)
		for _, want := range []string{
			"Max core file size 0 0 bytes", "Max open files 100 200 files", "Max cpu time 33 44 seconds",
			"Max file size 1048576 2097152 bytes", "Max address space 268435456 536870912 bytes",
		} {
			if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), want) {
				t.Errorf("no %q in %s", want, r.stdout)
			}
		}
		cmd = Command{Args: []string{"/bin/true"}, Rlimits: []Rlimit{{unix.RLIMIT_NOFILE, 4, 4}, {unix.RLIMIT_NPROC, 1, 1}}}
		w.mustRun(t, cmd)
		// Less than the Go runtime has, yet enough for a small program.
		cmd = Command{Args: []string{"/bin/true"}, Rlimits: []Rlimit{{unix.RLIMIT_AS, 16 << 20, 16 << 20}, {unix.RLIMIT_DATA, 4 << 20, 4 << 20}}}
		w.mustRun(t, cmd)

		cmd = Command{Args: []string{"/bin/true"}, Rlimits: []Rlimit{{unix.RLIMIT_NOFILE, 20, 10}}}
		if x := asExecError(t, w.run(t, cmd).err); x.Op != OpRlimit || !strings.HasPrefix(x.Path, "RLIMIT_NOFILE to 10, above the hard limit ") || x.Errno != syscall.EINVAL {
			t.Errorf("soft above hard: %v", x)
		}
		cmd.Rlimits = []Rlimit{{60, 1, 1}}
		if x := asExecError(t, w.run(t, cmd).err); x.Op != OpRlimit || !strings.HasPrefix(x.Path, "resource 60 ") || x.Errno != syscall.EINVAL {
			t.Errorf("unknown resource: %v", x)
		}
	})
}

// The Go runtime raises its own soft limit; the command must see the original.
func TestOpenFilesLimitIsTheOriginal(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		w.launcher = slices.Concat([]string{"/bin/sh", "-c", `ulimit -Sn 123; exec "$@"`, "sh"}, w.launcher)
		for _, limits := range limitSets {
			cmd := sh("ulimit -Sn")
			cmd.Rlimits = limits
			if r := w.mustRun(t, cmd); r.stdout != "123\n" {
				t.Errorf("limits %v: soft limit %q", limits, r.stdout)
			}
		}
	})
}

// Whether Landlock is here or not, the command runs, and the answer is the truth.
func TestScope(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, limits := range limitSets {
			s := w.launch(t, nil, false)
			cmd := sh("echo $PPID; grep NoNewPrivs /proc/self/status; kill -USR1 $PPID && echo sent; read x")
			cmd.Scope, cmd.Rlimits = true, limits
			s.start(t, sh2(cmd, "trap : USR1"))
			s.line(t)
			if got := s.line(t); got != "NoNewPrivs:\t1" {
				t.Errorf("got %q", got)
			}
			rest, _ := io.ReadAll(s.stdout)
			if denied := string(rest) == ""; denied != s.Scoped() {
				t.Errorf("signal to the init denied: %v, Scoped: %v", denied, s.Scoped())
			}
		}
	})
}

// A command reaches what lies beneath its root directory, and its stdio by name, wherever that is. By a
// descriptor, something beneath a root directory that it does not have is out of its reach.
func TestRooted(t *testing.T) {
	want := confine.Rooted(nil, false) != nil
	each(t, func(t *testing.T, w way) {
		for i, limits := range limitSets {
			s := w.launch(t, nil, false)
			cmd := sh("cat /etc/passwd > /dev/null && echo read\nd=$(mktemp -d /tmp/rootedXXXXXX) && mkdir $d/a $d/b && echo x > $d/a/f && ln $d/a/f $d/b/g && mv $d/a/f $d/b && rm -r $d && echo written\nf=$(mktemp /var/tmp/rootedXXXXXX) && rm $f || echo refused\necho again > /dev/stdout")
			cmd.Scope = i > 0
			cmd.Rooted, cmd.Writable, cmd.Rlimits = true, []string{"/dev", "/proc", "/tmp"}, limits
			s.start(t, cmd)
			rest, _ := io.ReadAll(s.stdout)
			if text := strings.ReplaceAll(string(rest), "\n", " "); s.Rooted() != want || want && text != "read written refused again " {
				t.Errorf("rooted: %v, want %v; it says %q", s.Rooted(), want, text)
			}
		}
	})
}

// sh2 puts a line before the script of sh.
func sh2(cmd Command, first string) Command {
	cmd.Args = slices.Clone(cmd.Args)
	cmd.Args[2] = first + "\n" + cmd.Args[2]
	return cmd
}

// A launcher that fails is told apart from a command that does.
func TestLauncherFails(t *testing.T) {
	t.Parallel()
	w := way{name: "false", launcher: []string{"/bin/sh", "-c", "echo no namespace for you >&2; exit 1"}, lean: true}
	s := w.launch(t, nil, false)
	err := s.Start(t.Context(), Command{Script: strings.Repeat("x", 1<<20)})
	if !errors.Is(err, ErrInitLost) {
		t.Errorf("Start: %v, want ErrInitLost", err)
	}
	<-s.ended
	if got := s.diag.String(); got != "no namespace for you\n" {
		t.Errorf("diagnosis %q", got)
	}
}

// What is no command is the init's complaint, on its own stderr.
func TestInitRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string][]byte{
		"garbage":       []byte("GET / HTTP/1.0\r\n\r\n"),
		"status":        frame.Encode(kindEnded, &endedMessage{}),
		"other version": {0, 0, 0, 2, 'C', wireVersion + 1, 0},
	} {
		s := direct.launch(t, nil, false)
		if _, err := s.f.Write(bytes); err != nil {
			t.Fatal(err)
		}
		<-s.ended
		if code := s.launcher.ProcessState.ExitCode(); code != proc.Failed || !strings.HasPrefix(s.diag.String(), "sbxhost-init (pid ") ||
			strings.Contains(name, "version") && !strings.Contains(s.diag.String(), "/sbxhost-init and its engine are of different versions: install both again\n") {
			t.Errorf("%s: exit status %d, diagnosis %q", name, code, s.diag.String())
		}
	}
}

func TestRunsLeakNothing(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	run := func() {
		engineEnd, initEnd, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		exe, err := direct.binary(t).Open()
		if err != nil {
			t.Fatal(err)
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		argv := Argv(3, 4)
		p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: []string{}, Files: []*os.File{null, null, null, exe, initEnd}})
		if err != nil {
			t.Fatal(err)
		}
		c := NewConn(engineEnd)
		if err := c.Complete([3]*os.File{null, null, null}, nil); err != nil {
			t.Fatal(err)
		}
		for _, f := range []*os.File{exe, initEnd, null} {
			f.Close()
		}
		if err := c.Start(t.Context(), Command{Args: []string{"/bin/true"}}); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Wait(); err != nil || s.Code != 0 {
			t.Fatalf("%+v, %v", s, err)
		}
		c.Close()
		p.Wait()
	}
	run()
	before := count()
	for range 200 {
		run()
	}
	if after := count(); after != before {
		t.Errorf("%d fds before, %d after", before, after)
	}
}
