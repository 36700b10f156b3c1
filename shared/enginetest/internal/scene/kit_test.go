package scene

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// What a run leaves that is killed, a later one removes, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	old := time.Now().Add(-2 * staleAfter)
	for name, gone := range map[string]bool{"sbxhost-probe-1": true, "sbxhost-probe-used": false, "sbxhost-probe-new": false, "other": false} {
		dir := base + "/" + name
		if err := os.MkdirAll(dir+"/sub", 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "sbxhost-probe-used" {
			f, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
				t.Fatal(err)
			}
		}
		if name != "sbxhost-probe-new" {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
		sweep(base)
		if _, err := os.Stat(dir); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}
