package orphans

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLaunchesInit(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"/usr/bin/bwrap|--args|3|--|/proc/self/fd/29|sbxhost-init|30|":    true,
		"/usr/bin/bwrap|--args|3|--|/proc/self/fd/29|sbxhost-init|30|34|": true, // with a line for sockets
		"/usr/bin/bwrap|--|/proc/self/fd/29|sbxhost-init|30|34|35|":       false,
		"/usr/bin/bwrap|--|/proc/self/fd/29|sbxhost-init|":                false,
		"/proc/self/fd/29|sbxhost-init|30|":                               false, // the init itself
		"/proc/self/fd/29|sbxhost-init|30|34|":                            false,
		"/usr/bin/bwrap|--args|3|--|/proc/self/fd/29|sbxhost-init|x|":     false,
		"/usr/bin/bwrap|--|/bin/sh|-c|sbxhost-init|30|":                   false,
		"": false,
	} {
		if got := launchesInit([]byte(strings.ReplaceAll(line, "|", "\x00"))); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

// What looks like the child of a launcher, and has another parent, is killed.
func TestKill(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x; :", "launcher", "/proc/self/fd/29", "sbxhost-init", "30")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID}
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
	Kill(time.Millisecond)
	in.Close()
	if cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", cmd.ProcessState)
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
	Kill(time.Millisecond)
	in.Close()
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
