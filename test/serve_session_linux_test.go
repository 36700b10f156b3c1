package test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"testing"
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
