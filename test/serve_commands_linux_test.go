package test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
