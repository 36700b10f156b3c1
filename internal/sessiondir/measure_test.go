package sessiondir

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A tree that nobody has made with care: deeper than any path, with links out, a
// directory that cannot be read, and files with many names.
func TestSize(t *testing.T) {
	t.Parallel()
	base, outside := tempDir(t), tempDir(t)
	fill(t, outside+"/big", 8<<20)
	tree(t, base, map[string]string{"t/link": "-> " + outside, "t/a/up": "-> ..", "t/a/b/c": "x", "t/shut": "dir"})
	fill(t, base+"/t/a/file", 1<<20)
	for _, name := range []string{"/t/again", "/t/a/b/again"} {
		if err := os.Link(base+"/t/a/file", base+name); err != nil {
			t.Fatal(err)
		}
	}
	deep(t, base+"/t", strings.Repeat("d", 100), 3000, func(fd int) {
		f, err := unix.Openat(fd, "bottom", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(f)
		if _, err := unix.Write(f, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Chmod(base+"/t/shut", 0); err != nil {
		t.Fatal(err)
	}
	const most = 2<<20 + 3020*(64<<10) // what file systems take for a directory
	if got, err := (&Info{Dir: base + "/t"}).Size(t.Context()); err != nil || got < 2<<20 || got > most {
		t.Errorf("%d, %v, want that of two files of a MiB and directories", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Info{Dir: base + "/t"}).Size(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got, err := (&Info{Dir: base + "/t/link"}).Size(t.Context()); err != nil || got > 1<<20 {
		t.Errorf("a symlink was followed: %d, %v", got, err)
	}
	if got, err := (&Info{Dir: base + "/gone"}).Size(t.Context()); err != nil || got != -1 {
		t.Errorf("the size of nothing: %d, %v", got, err)
	}
	if err := RemoveTree(t.Context(), base, "t"); err != nil {
		t.Error(err)
	}
}

// deep nests n directories of one name below dir.
func deep(t *testing.T, dir, name string, n int, atBottom func(fd int)) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	defer unix.Close(fd)
	if atBottom != nil {
		atBottom(fd)
	}
}

// Directories that change their places while they are measured lead nowhere.
func TestMeasureWhileMoved(t *testing.T) {
	t.Parallel()
	base, outside := tempDir(t), tempDir(t)
	fill(t, outside+"/big", 32<<20)
	tree(t, base, map[string]string{"t/a/b/c/d/f": "x", "t/z/y": "dir"})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(base+"/t/a/b/c", base+"/t/z/y/c")
			os.Symlink(outside, base+"/t/a/b/c")
			os.Remove(base + "/t/a/b/c")
			os.Rename(base+"/t/z/y/c", base+"/t/a/b/c")
			os.Rename(base+"/t/a/b/c", outside+"/c")
			os.Rename(outside+"/c", base+"/t/a/b/c")
		}
	}()
	for range 200 {
		if got, err := (&Info{Dir: base + "/t"}).Size(t.Context()); err != nil || got > 1<<20 {
			t.Errorf("%d, %v", got, err)
			break
		}
	}
	close(stop)
	<-done
}

// fill writes n bytes that take space.
func fill(t *testing.T, path string, n int) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o600); err != nil {
		t.Fatal(err)
	}
}
