package test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

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
	if out, err := s.sbxhost("serve", "-status").CombinedOutput(); err != nil || strings.Contains(string(out), "Not served") {
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
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		cmd, stdout := s.begun(t, nil, fmt.Sprintf("trap 'echo got; exit 5' %d; echo begun; until false; do sleep 0.05; done", sig))
		cmd.Process.Signal(sig)
		out, _ := io.ReadAll(stdout)
		if cmd.Wait(); string(out) != "got\n" || cmd.ProcessState.ExitCode() != 5 {
			t.Errorf("%v: %q, %v", sig, out, cmd.ProcessState)
		}
	}
	// A signal to the client is one to the command; the client's death ends it.
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		word := fmt.Sprintf("3333.%d%d", os.Getpid(), sig)
		cmd, stdout := s.begun(t, nil, "echo begun; exec sleep "+word)
		cmd.Process.Signal(sig)
		io.Copy(io.Discard, stdout) // to its end, which is that of all who have it
		cmd.Wait()
		if sig == syscall.SIGTERM && cmd.ProcessState.ExitCode() != 143 {
			t.Error(cmd.ProcessState)
		}
		if sig == syscall.SIGINT && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != sig { // a shell's loop would go on
			t.Error(cmd.ProcessState)
		}
		if left := named("sleep\x00" + word); len(left) > 0 {
			t.Errorf("after %v to the client: %d", sig, left)
		}
	}
}

// A link to a project can lead to another one by the next command, as "current" does after a
// deployment. A Host that the server kept for the first works on the first.
func TestServeFollowsALink(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	config := "workspace {\n  root = \"" + s.dir + "/link\"\n}\nsandbox \"default\" {\n  engine = \"native\"\n}\n"
	if err := os.WriteFile(s.dir+"/root.hcl", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, inA, inB string }{
		{"the directory", "a", "b"},
		{"a directory on the way", "a/sub", "b/sub"},
		{"a repository that is new", "a/sub", "a/sub"},
	} {
		if err := exec.Command("sh", "-ec", `cd "$0"; rm -rf a b; mkdir -p a/sub b/sub; git init -q a; git init -q b`, s.dir).Run(); err != nil {
			t.Fatal(err)
		}
		for i, to := range []string{c.inA, c.inB, c.inA} {
			if i == 1 && to == c.inA {
				if err := exec.Command("git", "init", "-q", s.dir+"/"+to).Run(); err != nil {
					t.Fatal(err)
				}
			}
			os.Remove(s.dir + "/link")
			if err := os.Symlink(to, s.dir+"/link"); err != nil {
				t.Fatal(err)
			}
			flags := [][]string{{"-quiet"}}
			if c.inA == "a" {
				flags = append(flags, []string{"-quiet", "-config", s.dir + "/root.hcl"})
			}
			for _, flags := range flags {
				written := fmt.Sprintf("written%d-%d", i, len(flags))
				out, err := s.sbx("cd "+s.dir+"/link && export PWD", append(flags, "-c", "touch "+written+"; ls "+s.dir+"/"+to[:1]+"/.git")...).CombinedOutput()
				if _, missing := os.Stat(s.dir + "/" + to + "/" + written); missing != nil {
					t.Errorf("%s, %q: %v, %v: %s", c.name, flags, err, missing, out)
				}
				if above := bytes.Contains(out, []byte("HEAD")); c.inA != "a" && above != (i == 0 || c.inA != c.inB) {
					t.Errorf("%s, %q, %d: the repository above is shown: %v: %s", c.name, flags, i, above, out)
				}
			}
		}
	}
	if out, err := s.sbx("export SBX_SERVE=on", "--", "true").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
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

// A client whose command a signal ended before it ran does not run it by itself.
func TestServeInterruptedEarly(t *testing.T) {
	t.Parallel()
	need(t, "git")
	s := newServing(t)
	dir, asked := stuckGit(t, s.dir+"/project")
	var stderr bytes.Buffer
	cmd := s.sbx("export PATH="+dir+":/usr/bin:/bin", "--", "true")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "a question to git", func() bool { _, err := os.Lstat(asked); return err == nil }, func() string { return s.dir })
	cmd.Process.Signal(syscall.SIGINT)
	if cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("%v: %s", cmd.ProcessState, &stderr)
	}
}
