package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockAt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := dir + "/lock"
	first, err := LockAt(t.Context(), unix.AT_FDCWD, file, unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockAt(NoWait(), unix.AT_FDCWD, file, unix.LOCK_SH); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("one that is held: %v", err)
	}
	// Whoever waits for it finds another file in its place.
	waiting := make(chan error)
	go func() {
		_, err := LockAt(t.Context(), unix.AT_FDCWD, file, unix.LOCK_EX)
		waiting <- err
	}()
	for opened := 0; opened < 2; {
		opened = 0
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			if at, _ := os.Readlink(fd); at == file {
				opened++
			}
		}
	}
	if err := os.Rename(file, dir+"/old"); err != nil {
		t.Fatal(err)
	}
	Unlock(first)
	if err := <-waiting; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that was renamed: %v", err)
	}
	if _, err := LockAt(NoWait(), unix.AT_FDCWD, dir+"/none/lock", unix.LOCK_EX); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is gone: %v", err)
	}
	if err := os.Symlink(dir+"/old", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := LockAt(NoWait(), unix.AT_FDCWD, dir+"/link", unix.LOCK_EX); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a symlink: %v", err)
	}
}
