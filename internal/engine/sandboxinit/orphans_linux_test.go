package sandboxinit

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/proc"
)

func TestLaunchesInit(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"/usr/bin/bwrap|--args|3|--|/proc/self/fd/29|sbxhost-init|30|": true,
		"/usr/bin/bwrap|--|/proc/self/fd/29|sbxhost-init|30|34|35|":    false,
		"/usr/bin/bwrap|--|/proc/self/fd/29|sbxhost-init|":             false,
		"/proc/self/fd/29|sbxhost-init|30|":                            false, // the init itself
		"/proc/self/fd/29|sbxhost-init|30|34|":                         false,
		"/usr/bin/bwrap|--args|3|--|/proc/self/fd/29|sbxhost-init|x|":  false,
		"/usr/bin/bwrap|--|/bin/sh|-c|sbxhost-init|30|":                false,
		"": false,
	} {
		if got := launchesInit([]byte(strings.ReplaceAll(line, "|", "\x00"))); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

// What looks like the child of a launcher, and has another parent, is killed. A
// launcher that its engine started as pid 1, in a session of its own, is not.
func TestKill(t *testing.T) {
	for name, c := range map[string]struct {
		setsid bool
		want   syscall.WaitStatus
	}{"orphan": {false, syscall.WaitStatus(syscall.SIGKILL)}, "launcher": {true, 7 << 8}} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", "read x; exit 7", "launcher", "/proc/self/fd/29", "sbxhost-init", "30")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, Setsid: c.setsid}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// Whoever else looks for orphans on this machine, in another test, may come
			// first, and others' may be here.
			KillOrphans(time.Millisecond)
			in.Close()
			if cmd.Wait(); cmd.ProcessState.Sys() != c.want {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
		})
	}
}

// A launcher may start its init by way of another program, whose command line is
// not its own.
func TestKillSparesChains(t *testing.T) {
	t.Parallel()
	const words = "/proc/self/fd/29 sbxhost-init 30"
	cmd := exec.Command("/usr/bin/unshare", append([]string{"--user", "--pid", "--fork", "--kill-child", "--",
		"/bin/sh", "-c", "echo up; read x; exit 7", "sh"}, strings.Fields(words)...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("up\n"))); err != nil {
		t.Error(err)
	}
	KillOrphans(time.Millisecond)
	in.Close()
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

// Any command of the machine chooses its command line, and can make it as long as its memory. No launcher has a long one.
func TestInspectLongLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more     int
		launcher bool
	}{"short": {0, true}, "long": {maxLine/(100<<10) + 1, false}} {
		words := []string{"-c", "read x; :", "sh"}
		for range c.more {
			words = append(words, strings.Repeat("x", 100<<10))
		}
		cmd := exec.Command("/bin/sh", append(words, "/proc/self/fd/29", "sbxhost-init", "30")...)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if launcher, orphan := inspect(cmd.Process.Pid); launcher != c.launcher || orphan {
			t.Errorf("%s: a launcher: %v, an orphan: %v", name, launcher, orphan)
		}
		in.Close()
		cmd.Wait()
	}
}

// A number that was an orphan's when all were looked at can be anybody's when it is killed.
func TestEndLooksAgain(t *testing.T) {
	t.Parallel()
	begin := func() (*exec.Cmd, io.Closer) {
		cmd := exec.Command("/bin/cat")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, in
	}
	other, in := begin()
	end(other.Process.Pid, func(pid int) bool {
		_, orphan := inspect(pid)
		return orphan
	})
	in.Close()
	if err := other.Wait(); err != nil {
		t.Errorf("somebody else's process: %v", err)
	}

	// The process is held before it is looked at: what takes over its number meanwhile is spared.
	was, in := begin()
	defer in.Close()
	looked, before := false, held(t, was.Process.Pid)
	end(was.Process.Pid, func(pid int) bool {
		looked = true
		if held(t, pid) == before {
			t.Error("it is looked at before it is held")
		}
		return true
	})
	if was.Wait(); !looked || was.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("looked at: %v; it ended with %v", looked, was.ProcessState)
	}
}

// held is how many descriptors of a process this one has, of which package os has its own.
func held(t *testing.T, pid int) (n int) {
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		text, _ := os.ReadFile(info)
		if proc.StatusField(string(text), "Pid") == strconv.Itoa(pid) {
			n++
		}
	}
	return n
}

func end(pid int, is func(pid int) bool) { proc.Kill(pid, is, 0) }
