//go:build unix

package facts

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/view"
)

// What was left of a command that was killed does not stay: it is 200 KiB with each command
// that has credentials put into its requests.
func TestOldCopiesGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hash := strings.Repeat("0f", sha256.Size)
	for name, stays := range map[string]bool{hash + "23h": true, hash + "25h": false, "25h": true} { // the last one is somebody's own
		age, _ := time.ParseDuration(strings.TrimPrefix(name, hash))
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o444); err != nil {
			t.Fatal(err)
		}
		made := time.Now().Add(-age)
		if err := os.Chtimes(file, made, made); err != nil {
			t.Fatal(err)
		}
		sweepCopies(dir)
		if _, err := os.Stat(file); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A command that is about to start uses an old copy; another one, whose copy is new, must not remove it.
func TestCopiesInUseStay(t *testing.T) {
	t.Parallel()
	m := &Machine{Config: Config{Caller: Caller{Environ: NewEnvironment([]string{"XDG_CACHE_HOME=" + t.TempDir()})}}}
	out := &Resolution{View: new(view.View)}
	file := m.copyOf(out, []byte("one"))
	made := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(file, made, made); err != nil {
		t.Fatal(err)
	}
	if again, other := m.copyOf(out, []byte("one")), m.copyOf(out, []byte("two")); again != file || other == "" {
		t.Fatalf("%q, then %q and %q", file, again, other)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
