package native

import (
	"errors"
	"os"
	"testing"
	"time"
)

// Root's trial makes nothing in a directory of an ordinary user, who could put a symlink there.
func TestProbeOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a directory away")
	}
	dir, before := t.TempDir(), time.Unix(1e9, 0)
	if err := errors.Join(os.Chown(dir, 12345, 12345), os.Chtimes(dir, before, before)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	if _, err := New().Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || !info.ModTime().Equal(before) {
		t.Errorf("the probe has written there: %v, %v", info, err)
	}
}
