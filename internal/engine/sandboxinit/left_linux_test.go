package sandboxinit

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that the command left behind can replace a directory by a fifo while the init counts.
func TestCountFilesOfAFifo(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	looked := 0
	if n := countFiles(fifo, "", 0, &looked); n != 0 {
		t.Errorf("%d files", n)
	}
}
