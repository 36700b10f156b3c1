package native

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// sessionDir is a session's directory, the holder of which must end.
func sessionDir(t *testing.T) string {
	t.Helper()
	dir := inside.Workspace(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		locks, _ := filepath.Glob(filepath.Join(dir, "holder", "*", "lock"))
		for _, lock := range locks {
			if fd, err := unix.Open(lock, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
				unix.Flock(fd, unix.LOCK_EX)
				unix.Close(fd)
			}
		}
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	return dir
}

func sessionSpec(t *testing.T) shared.Spec {
	t.Helper()
	return shared.Spec{Session: shared.Session{ID: t.Name(), Dir: sessionDir(t)}}
}
