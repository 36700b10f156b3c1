package sandboxinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// limitSets are limits of a command: none, and one that is not the starter's own.
var limitSets = [][]Rlimit{nil, {{unix.RLIMIT_AS, 1 << 42, 1 << 42}}}

func TestExitCodes(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, code := range []int{0, 1, 2, 7, 125, 126, 127, 128, 137, 143, 255} {
			r := w.run(t, sh("exit $1", fmt.Sprint(code)))
			if r.err != nil || r.status != (Status{Code: code}) || r.launcherCode != 0 || r.diag != "" {
				t.Errorf("exit %d: %+v", code, r)
			}
		}
	})
}

// All of 0 to 255 go through the same code; the cheapest way tries each.
func TestEveryExitCode(t *testing.T) {
	t.Parallel()
	for code := range 256 {
		r := direct.run(t, sh("exit $1", fmt.Sprint(code)))
		if r.err != nil || r.status != (Status{Code: code}) {
			t.Errorf("exit %d: %+v", code, r)
		}
	}
}

func TestDeathBySignal(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, sig := range []int{1, 2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 15, 31, 34, 64} {
			r := w.run(t, sh("kill -$1 $$", fmt.Sprint(sig)))
			if r.err != nil || r.status.Code != -1 || r.status.Signal != sig || r.launcherCode != 0 {
				t.Errorf("kill -%d: %+v", sig, r)
			}
		}
	})
}

func TestCoreFlag(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, w way) {
		cmd := sh("kill -QUIT $$")
		// No dump is made: the kernel counts a write of nothing as none.
		cmd.Rlimits = []Rlimit{{unix.RLIMIT_CORE, 0, 0}}
		if r := w.run(t, cmd); r.status != (Status{Code: -1, Signal: 3}) {
			t.Errorf("without a dump: %+v", r)
		}
		if strings.TrimSpace(string(pattern)) != "core" {
			return // where a dump goes is this machine's choice
		}
		cmd.Dir = "/tmp"
		if w.launcher == nil {
			cmd.Dir = t.TempDir()
		}
		if soft := hardLimit(t, unix.RLIMIT_CORE); soft > 0 {
			cmd.Rlimits = []Rlimit{{unix.RLIMIT_CORE, soft, soft}}
			if r := w.run(t, cmd); r.status != (Status{Code: -1, Signal: 3, CoreDumped: true}) {
				t.Errorf("with a dump: %+v", r)
			}
		}
	})
}

func hardLimit(t *testing.T, resource int) uint64 {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		t.Fatal(err)
	}
	return l.Max
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o644)
	noInterpreter := write("nointerp", "#!/no/such/interpreter\n", 0o755)
	noFormat := write("noformat", "echo hello\n", 0o755)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + dir + ":/usr/bin:/bin"}
	tests := map[string]struct {
		cmd       Command
		op        Op
		path      string
		errno     syscall.Errno
		shellCode int
	}{
		"not in PATH":       {Command{Args: []string{"nope"}, Env: env}, OpLookup, "nope", syscall.ENOENT, 127},
		"no PATH":           {Command{Args: []string{"sh"}}, OpLookup, "sh", syscall.ENOENT, 127},
		"empty name":        {Command{Args: []string{""}, Env: env}, OpLookup, "", syscall.ENOENT, 127},
		"relative PATH":     {Command{Args: []string{"sh"}, Env: []string{"PATH=.:bin::usr/bin"}, Dir: "/"}, OpLookup, "sh", syscall.ENOENT, 127},
		"directory in PATH": {Command{Args: []string{"sub"}, Env: env}, OpLookup, "sub", syscall.ENOENT, 127},
		"no x in PATH":      {Command{Args: []string{"plain"}, Env: env}, OpExec, plain, syscall.EACCES, 126},
		"no file":           {Command{Args: []string{"/no/such"}}, OpExec, "/no/such", syscall.ENOENT, 127},
		"below a file":      {Command{Args: []string{plain + "/x"}}, OpExec, plain + "/x", syscall.ENOTDIR, 127},
		"not executable":    {Command{Args: []string{plain}}, OpExec, plain, syscall.EACCES, 126},
		"directory":         {Command{Args: []string{"/usr"}}, OpExec, "/usr", syscall.EISDIR, 126},
		"interpreter":       {Command{Args: []string{noInterpreter}}, OpInterpreter, noInterpreter, syscall.ENOENT, 127},
		"no #!":             {Command{Args: []string{noFormat}}, OpExec, noFormat, syscall.ENOEXEC, 126},
		"no #!, relative":   {Command{Args: []string{"./noformat"}, Dir: dir}, OpExec, "./noformat", syscall.ENOEXEC, 126},
		"long argument":     {Command{Args: []string{"/bin/true", strings.Repeat("x", 200<<10)}}, OpExec, "/bin/true", syscall.E2BIG, 126},
		"chdir":             {Command{Args: []string{"/bin/true"}, Dir: "/no/such"}, OpChdir, "/no/such", syscall.ENOENT, 0},
		"not in its place":  {Command{Args: []string{"/bin/true"}, Mounts: []Mount{{Path: "/proc"}, {Path: "/proc/self"}}}, OpMounts, "/proc/self", syscall.ESTALE, 0},
		"linked, no mount":  {Command{Args: []string{"/bin/true"}, Mounts: []Mount{{Path: "/proc/self", Linked: true}}}, OpMounts, "/proc/self", syscall.ESTALE, 0},
		"another mount":     {Command{Args: []string{"/bin/true"}, Mounts: []Mount{{Path: "/proc"}, {Path: "/proc", Dev: 1, Ino: 1}}}, OpMounts, "/proc", syscall.ESTALE, 0},
		"nowhere at all":    {Command{Args: []string{"/bin/true"}, Mounts: []Mount{{Path: "/no/such"}}}, OpMounts, "/no/such", syscall.ENOENT, 0},
		"no terminal":       {Command{Args: []string{"/bin/true"}, TTY: true}, OpTTY, "", syscall.ENOTTY, 0},
	}
	each(t, func(t *testing.T, w way) {
		// The launcher must see the directory where the test made it.
		if w.launcher != nil {
			w.launcher = slices.Concat(w.launcher, []string{"--ro-bind", dir, dir})
		}
		for name, test := range tests {
			for _, limits := range limitSets {
				cmd := test.cmd
				cmd.Rlimits = limits
				r := w.run(t, cmd)
				x := asExecError(t, r.err)
				if x.Op != test.op || x.Path != test.path || x.Errno != test.errno {
					t.Errorf("%s: %v (%+v)", name, x, x)
				}
				if r.launcherCode != proc.Failed || x.NotFound() != (test.shellCode == 127) || x.NotExecutable() != (test.shellCode == 126) {
					t.Errorf("%s: launcher's exit status %d, and %v as a shell's %d", name, r.launcherCode, x, test.shellCode)
				}
				if r.stdout != "" || r.stderr != "" || r.diag != "" {
					t.Errorf("%s: something was written: %+v", name, r)
				}
			}
		}
	})
}

func TestEnvironmentAndDirectory(t *testing.T) {
	t.Setenv("SANDBOXINIT_LEAK", "1")
	each(t, func(t *testing.T, w way) {
		env := []string{"B=2", "A=1", "A=again", "EMPTY=", "NL=a\nb", "BAD=\xff", "GODEBUG=inittrace=1", "odd"}
		for _, limits := range limitSets {
			r := w.mustRun(t, Command{Args: []string{"/bin/cat", "/proc/self/environ"}, Env: env, Rlimits: limits})
			if want := strings.Join(env, "\x00") + "\x00"; r.stdout != want {
				t.Errorf("environment %q, want %q", r.stdout, want)
			}
			r = w.mustRun(t, Command{Args: []string{"/bin/cat", "/proc/self/environ"}, Rlimits: limits})
			if r.stdout != "" {
				t.Errorf("environment %q, want none", r.stdout)
			}
		}
		if r := w.mustRun(t, Command{Args: []string{"pwd"}, Env: []string{testPath}, Dir: "/usr/lib"}); r.stdout != "/usr/lib\n" {
			t.Errorf("directory %q", r.stdout)
		}
	})
}

func TestArguments(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		args := []string{"/usr/bin/printf", "[%s]", "", "a b", "$HOME", "\n", "\xff", "-n", "*"}
		if r := w.mustRun(t, Command{Args: args}); r.stdout != "[][a b][$HOME][\n][\xff][-n][*]" {
			t.Errorf("got %q", r.stdout)
		}
	})
}

func TestScript(t *testing.T) {
	filler := strings.Repeat("# nothing to see here\n", 200<<10/22)
	for size, pad := range map[string]string{"small": "", "200 KiB": filler} {
		t.Run(size, func(t *testing.T) {
			each(t, func(t *testing.T, w way) {
				run := func(text string, args ...string) result {
					t.Helper()
					return w.run(t, Command{Script: text + "\n" + pad, Args: args, Env: []string{testPath, "HOME=/nonexistent"}})
				}
				if r := run("exit 7"); r.status != (Status{Code: 7}) {
					t.Errorf("exit 7: %+v", r)
				}
				if r := run("(exit 9)\n" + pad); r.status != (Status{Code: 9}) {
					t.Errorf("status of the last command: %+v", r)
				}
				if r := run("kill -TERM $$"); r.status != (Status{Code: -1, Signal: 15}) {
					t.Errorf("kill: %+v", r)
				}
				r := run(`echo "$0|$#|$1|$2|${BASH_VERSION:+bash}|$PATH"`, "a b", "")
				if r.stdout != "bash|2|a b||bash|"+strings.TrimPrefix(testPath, "PATH=")+"\n" {
					t.Errorf("parameters: %+v", r)
				}
				if r := run("\n\nnosuchcommand"); r.status.Code != 127 || !strings.Contains(r.stderr, "line ") || !strings.Contains(r.stderr, "3:") && size == "200 KiB" {
					t.Errorf("line number: %+v", r)
				}
				if r := run("ls /proc/self/fd"); r.stdout != "0\n1\n2\n3\n" { // 3 is ls's own
					t.Errorf("fds: %+v", r)
				}
				if r := run(pad + "echo last"); r.stdout != "last\n" || r.stderr != "" {
					t.Errorf("last line: %+v", r)
				}
			})
		})
	}
}

// Without bash, sh does it; a long script, too, may be dash's.
func TestScriptWithSh(t *testing.T) {
	bwrapLean.require(t)
	t.Parallel()
	w := bwrapLean
	bin := func(name string) []string { return []string{"--ro-bind", "/dev/null", name} }
	w.launcher = slices.Concat(w.launcher, bin("/usr/bin/bash"))
	if fi, err := os.Lstat("/bin"); err == nil && fi.Mode()&os.ModeSymlink == 0 {
		w.launcher = slices.Concat(w.launcher, bin("/bin/bash"))
	}
	for _, pad := range []string{"", strings.Repeat("# nothing\n", 20000)} {
		script := `echo "$0|$1|${BASH_VERSION-none}"; ls /proc/self/fd; (exit 3)` + "\n" + pad
		r := w.run(t, Command{Script: script, Args: []string{"x"}, Env: []string{testPath}})
		if r.status != (Status{Code: 3}) || r.stdout != "sh|x|none\n0\n1\n2\n3\n" {
			t.Errorf("%d bytes: %+v", len(script), r)
		}
	}
}

func TestStdio(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		stdin, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := w.launch(t, stdin, false)
		stdin.Close()
		go func() {
			io.WriteString(feed, strings.Repeat("0123456789abcdef", 1<<16))
			feed.Close()
		}()
		r := s.run(t, sh("wc -c; echo oops >&2"))
		if strings.TrimSpace(r.stdout) != "1048576" || r.stderr != "oops\n" || r.diag != "" {
			t.Errorf("%+v", r)
		}
	})
}

// A reader sees the end when the command closes its output, not when it ends.
func TestOutputEndsBeforeCommand(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		s := w.launch(t, nil, false)
		s.start(t, sh("exec >&- 2>&-; sleep 1000"))
		if b, err := io.ReadAll(s.stdout); err != nil || len(b) > 0 {
			t.Errorf("stdout %q, %v", b, err)
		}
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
}

func TestOnlyStandardFds(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, limits := range limitSets {
			cmd := sh("ls /proc/$$/fd")
			cmd.Rlimits = limits
			// dash keeps no fd of its own for -c.
			if r := w.mustRun(t, cmd); r.stdout != "0\n1\n2\n" {
				t.Errorf("fds %q", r.stdout)
			}
		}
	})
}

func TestSignalState(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, limits := range limitSets {
			r := w.mustRun(t, Command{Args: []string{"/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}, Rlimits: limits})
			// glibc's posix_spawn, by which make starts the tests, ignores signal
			// 32 in what it starts, and without a pid namespace that is inherited.
			r.stdout = strings.Replace(r.stdout, "SigIgn:\t0000000080000000", "SigIgn:\t0000000000000000", 1)
			want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
			if r.stdout != want {
				t.Errorf("limits %v: %q", limits, r.stdout)
			}
		}
	})
}

func TestSignals(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		t.Run("handler runs", func(t *testing.T) {
			s := w.launch(t, nil, false)
			s.start(t, sh(`trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 1000 & wait; done`))
			s.line(t)
			if err := s.Signal(int(syscall.SIGTERM)); err != nil {
				t.Fatal(err)
			}
			if got := s.line(t); got != "term" {
				t.Errorf("handler said %q", got)
			}
			if status, err := s.Wait(); err != nil || status.Code != 5 {
				t.Errorf("%+v, %v", status, err)
			}
			if err := s.Signal(15); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("Signal after the end: %v", err)
			}
		})
		t.Run("whole group", func(t *testing.T) {
			s := w.launch(t, nil, false)
			s.start(t, sh(`trap '' USR1; sh -c 'trap "echo grandchild; exit" USR1; echo ready; while :; do sleep 0.01; done'; echo over`))
			s.line(t)
			if err := s.Signal(int(syscall.SIGUSR1)); err != nil {
				t.Fatal(err)
			}
			// A signal ignored on entry to a shell cannot be trapped, so the
			// inner shell would not: see that it is the group that is reached.
			if err := s.Signal(int(syscall.SIGTERM)); err != nil {
				t.Fatal(err)
			}
			if status, err := s.Wait(); err != nil || status.Signal != 15 {
				t.Errorf("%+v, %v", status, err)
			}
		})
		t.Run("grandchild", func(t *testing.T) {
			s := w.launch(t, nil, false)
			s.start(t, sh(`trap : USR1; sh -c 'trap "echo grandchild; exit 0" USR1; echo ready; while :; do sleep 0.01; done'; echo over`))
			s.line(t)
			if err := s.Signal(int(syscall.SIGUSR1)); err != nil {
				t.Fatal(err)
			}
			if got := s.line(t); got != "grandchild" {
				t.Errorf("grandchild said %q", got)
			}
			if got := s.line(t); got != "over" {
				t.Errorf("command said %q", got)
			}
		})
		t.Run("stop and continue", func(t *testing.T) {
			s := w.launch(t, nil, false)
			s.start(t, sh(`trap 'echo continued; exit' CONT; echo ready; while :; do sleep 0.01; done`))
			s.line(t)
			for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
				if err := s.Signal(int(sig)); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.line(t); got != "continued" {
				t.Errorf("command said %q", got)
			}
		})
	})
}

// Signals to the init itself, as docker stop sends them, are the command's.
func TestInitPassesSignals(t *testing.T) {
	t.Parallel()
	s := direct.launch(t, nil, false)
	s.start(t, sh(`trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.01; done`))
	s.line(t)
	if err := s.launcher.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := s.line(t); got != "term" {
		t.Errorf("command said %q", got)
	}
}
