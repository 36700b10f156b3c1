package test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The server's commands in one session run at the same time. Who needs another engine there, in the
// server or without it, waits for them; the server then gives the session up.
func TestServeSession(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	var stderr bytes.Buffer
	first, _ := s.begun(t, &stderr, "echo begun; until test -e go; do sleep 0.02; done; echo one >~/f", "-session", "x")
	beside := func() bool { return s.sbx("", "-session", "x", "-timeout", "5s", "-c", "true").Run() == nil }
	until(t, "a command beside the first one", beside, func() string { return "" }) // a busy server may not take one
	want := fmt.Sprintf("sbxhost: waiting for session \"x\", in use by process %d\n", s.server.Process.Pid)
	var ends []func()
	for name, before := range map[string]string{"without the server": "export SBX_SERVE=off", "in another sandbox": ""} {
		cmd := s.sbx(before, "-session", "x", "-sandbox", "other", "-c", "cat ~/f")
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		errors, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(errors).ReadString('\n'); line != want {
			t.Errorf("%s: %q, %v", name, line, err)
		}
		ends = append(ends, func() {
			if err := cmd.Wait(); err != nil || stdout.String() != "one\n" {
				t.Errorf("%s: %q, %v", name, &stdout, err)
			}
		})
	}
	if err := os.WriteFile(s.dir+"/project/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	for _, end := range ends {
		end()
	}
}

// The end of a server ends a kept session that begins meanwhile, and each client hears why.
func TestServeEndsSessions(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	first, _ := s.begun(t, nil, "echo begun; exec sleep 1000", "-session", "x")
	second := s.sbxhost("exec", "-config", s.dir+"/c.hcl", "-keep", "-session", "x", "--", "sh", "-c", "sleep 1000 & echo >kept; wait")
	second.Dir = s.dir + "/project"
	stderr, err := second.StderrPipe()
	if err == nil {
		err = second.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	if line, err := lines.ReadString('\n'); !strings.Contains(line, "waiting for session") {
		t.Errorf("%q, %v", line, err)
	}
	begin := time.Now()
	if out, err := s.sbxhost("serve", "-stop").CombinedOutput(); err != nil || time.Since(begin) > 5*time.Second { // killed after ten
		t.Errorf("after %v: %v, %s", time.Since(begin), err, out)
	}
	first.Wait()
	second.Wait()
	s.start(t)
	third := s.sbxhost("exec", "-config", s.dir+"/c.hcl", "-keep", "-session", "y", "--", "sh", "-c", "echo >kept; sleep 1000")
	third.Dir = s.dir + "/project"
	var said bytes.Buffer
	third.Stderr = &said
	os.Remove(s.dir + "/project/kept")
	if err := third.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "a kept command", func() bool { _, err := os.Stat(s.dir + "/project/kept"); return err == nil }, said.String)
	if out, err := s.sbxhost("sessions", "rm", "y").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if third.Wait(); third.ProcessState.ExitCode() != 137 || !strings.Contains(said.String(), "sbxhost: session \"y\" was ended, and the command with it\n") {
		t.Errorf("%v: %s", third.ProcessState, &said)
	}
}
