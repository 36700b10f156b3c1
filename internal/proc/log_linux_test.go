package proc

import (
	"os/exec"
	"strings"
	"testing"
)

// A log has what its writers wrote, in order, up to its size; a writer that fills it fails, and never waits.
func TestLog(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo one >&2; (echo two >&2)": "one\ntwo\n",
		"":                             "",
		"exec 3>&2; head -c 2000000 /dev/zero | tr '\\0' x 2>/dev/null >&3; true": strings.Repeat("x", maxLog),
	} {
		l, err := NewLog()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Stderr = l.File
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
		if got := l.Text(); got != want {
			t.Errorf("%s: %d bytes, want %d", script, len(got), len(want))
		}
	}
	var none *Log
	if none.Text() != "" {
		t.Error("no log has a text")
	}
}
