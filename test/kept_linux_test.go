package test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keeping is a kept session with something in the background, and the processes that hold it.
type keeping struct {
	dir, bin string
	env      []string

	background                      int // as the host numbers it
	keeper, engine, holder, resides int
}

func newKeeping(t *testing.T) *keeping {
	t.Helper()
	requireBwrap(t)
	k := &keeping{dir: t.TempDir(), bin: t.TempDir()}
	build(t, k.bin, append(engineBinaries[:], "cmd/sbxhost")...)
	for _, sub := range []string{"home", "project"} {
		if err := os.Mkdir(filepath.Join(k.dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	k.env = []string{"HOME=" + k.dir + "/home", "XDG_RUNTIME_DIR=" + k.dir, "PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
	if err := os.WriteFile(filepath.Join(k.dir, "c.hcl"), []byte(`sandbox "dev" {
  engine = "native"
  session {
    processes = true
    idle      = "60s"
  }
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.sbxhost("sessions", "rm", "s").Run() })
	if out, err := k.exec("sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 &").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for begin := time.Now(); k.background == 0; { // which the shell has forked, and which executes at some time
		out, err := k.sbxhost("sessions", "list", "-v", "s").Output()
		if err != nil || time.Since(begin) > time.Minute {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.HasSuffix(line, " sleep 1000\n") {
				k.background, _ = strconv.Atoi(strings.Fields(line)[1])
			}
		}
	}
	var up []int
	for begin := time.Now(); len(up) < 5 || !isFirst(up[1]); up = parents(k.background) { // the init of its command is about to end
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d has the parents %d", k.background, up)
		}
	}
	k.resides, k.holder, k.engine, k.keeper = up[1], up[2], up[3], up[4]
	return k
}

// isFirst reports whether a process is pid 1 of its namespace.
func isFirst(pid int) bool {
	_, ids, _ := strings.Cut(procFile(pid, "status"), "\nNSpid:")
	ids, _, _ = strings.Cut(ids, "\n")
	return strings.HasSuffix(ids, "\t1")
}

func (k *keeping) sbxhost(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(k.bin, "sbxhost"), args...)
	cmd.Dir, cmd.Env = k.dir+"/project", k.env
	return cmd
}

func (k *keeping) exec(args ...string) *exec.Cmd {
	return k.sbxhost(append([]string{"exec", "-config", k.dir + "/c.hcl", "-session", "s", "--"}, args...)...)
}

// running starts a command that goes on, with something in the background, and gives both as the
// host numbers them.
func (k *keeping) running(t *testing.T, stderr *os.File) (client *exec.Cmd, command, its int) {
	t.Helper()
	client = k.exec("sh", "-c", "(setsid sleep 1001 </dev/null >/dev/null 2>&1 &); echo ready; sleep 1002; :")
	client.Stderr = stderr
	stdout, err := client.StdoutPipe()
	if err == nil {
		err = client.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	for begin := time.Now(); command == 0 || its == 0; { // the shell has forked them, and they execute at some time
		out, err := k.sbxhost("sessions", "list", "-v", "s").Output()
		if err != nil || time.Since(begin) > time.Minute {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			switch {
			case strings.HasSuffix(line, " sleep 1001\n"):
				its, _ = strconv.Atoi(fields[1])
			case strings.HasSuffix(line, " sleep 1002\n"):
				command, _ = strconv.Atoi(fields[1])
			}
		}
	}
	return client, command, its
}

// gone reports whether a process has ended, at the latest after a minute.
func gone(pid int) bool {
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if stat := procFile(pid, "stat"); stat == "" || strings.Contains(stat, ") Z ") {
			return true
		}
	}
	return false
}

// Whatever is killed of what holds a session, nothing of the session is left.
func TestKeptEndsWithEachPart(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(*keeping) int{
		"the keeper":  func(k *keeping) int { return k.keeper },
		"the engine":  func(k *keeping) int { return k.engine },
		"the holder":  func(k *keeping) int { return k.holder },
		"its pid 1":   func(k *keeping) int { return k.resides },
		"by sessions": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeping(t)
			client, command, its := k.running(t, os.Stderr)
			if part == nil {
				if out, err := k.sbxhost("sessions", "rm", "s").CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			} else {
				syscall.Kill(part(k), syscall.SIGKILL)
			}
			defer time.AfterFunc(2*time.Minute, func() { client.Process.Kill() }).Stop() // it is told below
			if err := client.Wait(); err == nil {
				t.Error("the running command is told to have succeeded")
			}
			for _, pid := range []int{k.background, command, its, k.resides} {
				if !gone(pid) {
					t.Errorf("process %d of %+v is left", pid, k)
				}
			}
			// The session can be begun again.
			again := k.exec("echo", "again")
			var stderr strings.Builder
			again.Stderr = &stderr
			if out, err := again.Output(); err != nil || string(out) != "again\n" {
				t.Errorf("%q, %v\n%s", out, err, &stderr)
			}
			if out, err := k.sbxhost("sessions", "rm", "s").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// What ends one command ends nothing of the others.
func TestKeptOutlivesACommand(t *testing.T) {
	t.Parallel()
	k := newKeeping(t)
	for _, name := range []string{"the client", "the init of a command"} { // which leaves processes that look like the next one's
		said, stderr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		client, command, its := k.running(t, stderr)
		stderr.Close()
		init := parents(command)[2]
		if !slices.Contains(parents(init), k.holder) || init == k.resides {
			t.Fatalf("%d is not the init of a command: %d", init, parents(command))
		}
		if name == "the client" {
			client.Process.Kill()
		} else {
			syscall.Kill(init, syscall.SIGKILL)
		}
		client.Wait()
		// It is at its end when the keeper has nothing to say any more, too.
		text, err := io.ReadAll(said)
		said.Close()
		if name == "the client" && (!gone(command) || !gone(its) || len(text) > 0 || err != nil) {
			t.Errorf("%s: the command is left, or what it has started; or it is told: %q, %v", name, text, err)
		}
		if stat := procFile(k.background, "stat"); stat == "" || strings.Contains(stat, ") Z ") {
			t.Errorf("%s: what another command has left running is gone", name)
		}
		if out, err := k.exec("echo", "still").Output(); err != nil || string(out) != "still\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	if out, err := k.sbxhost("sessions", "rm", "s").CombinedOutput(); err != nil || !gone(k.background) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A keeper that is stopped holds up nobody who ends it.
func TestKeptStoppedKeeper(t *testing.T) {
	t.Parallel()
	k := newKeeping(t)
	syscall.Kill(k.keeper, syscall.SIGSTOP)
	until(t, "the keeper to be stopped", func() bool { return stopped(k.keeper) }, func() string { return "" })
	out, err := k.exec("true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not answer") {
		t.Errorf("%v\n%s", err, out)
	}
	// A command that is not to be among its processes waits within its limit.
	if out, err := k.sbxhost("exec", "-session", "s", "-timeout", "3s", "--", "echo", "alone").CombinedOutput(); err == nil || !strings.Contains(string(out), fmt.Sprintf(`while session "s" was in use by process %d`, k.keeper)) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := k.sbxhost("exec", "-session", "z", "--", "true").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	list := k.sbxhost("sessions", "list")
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err = list.Output()
	if want := fmt.Sprintf("session \"s\": process %d: the server does not answer", k.keeper); list.ProcessState.ExitCode() != 125 || !strings.Contains(stderr.String(), want) {
		t.Errorf("%v, want %q\n%s", err, want, &stderr)
	}
	if text := string(out); !strings.Contains(text, "\ns ") || !strings.Contains(text, "\nz ") {
		t.Errorf("not all sessions are listed:\n%s", text)
	}
	if out, err := k.sbxhost("sessions", "rm", "s").CombinedOutput(); err != nil || !gone(k.background) {
		t.Errorf("%v\n%s", err, out)
	}
}
