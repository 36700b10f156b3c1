//go:build unix

package facts

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What was left of a command that was killed does not stay: it is 200 KiB with each command
// that has credentials put into its requests.
func TestOldCopiesGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for age, stays := range map[time.Duration]bool{23 * time.Hour: true, 25 * time.Hour: false} {
		file := filepath.Join(dir, age.String())
		if err := os.WriteFile(file, nil, 0o444); err != nil {
			t.Fatal(err)
		}
		made := time.Now().Add(-age)
		if err := os.Chtimes(file, made, made); err != nil {
			t.Fatal(err)
		}
		sweepCopies(dir)
		if _, err := os.Stat(file); (err == nil) != stays {
			t.Errorf("after %v: %v", age, err)
		}
	}
}
