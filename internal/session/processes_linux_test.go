package session

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A process that writes its title over its arguments leaves empty words after it.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for cmdline, want := range map[string][]string{
		"":                        {"[name]"},
		"a\x00\x00b\x00":          {"a", "", "b"},
		"npm run dev\x00\x00\x00": {"npm run dev"},
	} {
		if got := commandLine([]byte(cmdline), "name"); !slices.Equal(got, want) {
			t.Errorf("%q: %q", cmdline, got)
		}
	}
}

// A list has a bounded part of the command lines, which commands choose: the server of a kept session reads them.
func TestLongCommandLines(t *testing.T) {
	const each, processes = 100 << 10, 200
	// The first process of a namespace, as an init, has the others as children.
	cmd := exec.Command("/bin/sh", "-c", `i=0; while [ $i -lt 200 ]; do /bin/sh -c 'sleep 60; :' "$@" & i=$((i+1)); done; echo up; read x`, "sh", strings.Repeat("x", each))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID}
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	list, err := Processes(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	size, shortened := 0, 0
	for _, p := range list {
		line := strings.Join(p.Args, " ")
		if size += len(line); len(line) > maxLine {
			t.Fatalf("%d bytes of one", len(line))
		}
		if strings.HasPrefix(line, "[") {
			shortened++
		}
	}
	if len(list) < processes || size > maxLines+32*len(list) || shortened == 0 {
		t.Errorf("%d processes, %d bytes, %d names", len(list), size, shortened)
	}
}
