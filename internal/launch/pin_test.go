package launch

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// What is executed is the file that was verified, whatever is at its path by then:
// a program, and a script whose interpreter opens it again.
func TestPinnedIsWhatIsExecuted(t *testing.T) {
	t.Parallel()
	echo, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"script": []byte("#!/bin/sh\necho verified\n"), "program": echo} {
		dir := t.TempDir()
		path := filepath.Join(dir, "engine")
		other := filepath.Join(dir, "other")
		if err := errors.Join(programs.Write(path, text), programs.Write(other, []byte("#!/bin/sh\necho planted\n"))); err != nil {
			t.Fatal(err)
		}
		sum, err := Checksum(path)
		if err != nil {
			t.Fatal(err)
		}
		verified, err := openPinned(path, sum)
		if err != nil {
			t.Fatal(err)
		}
		defer verified.Close()
		if err := os.Rename(other, path); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "verified")
		private, err := executePinned(cmd, verified, sum)
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(private)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "verified\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
		// The control, and what is said of it.
		if out, _ := exec.Command(path).Output(); !bytes.Equal(out, []byte("planted\n")) {
			t.Errorf("%s: at its path there is %q", name, out)
		}
		now, err := Checksum(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = openPinned(path, sum)
		if !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), sum) || !strings.Contains(err.Error(), now) || !strings.Contains(err.Error(), "pin this one") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
