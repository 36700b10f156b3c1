package hostpath

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openers are the ways OpenNoSymlinks has; every one must refuse every symlink.
func TestOpenNoSymlinks(t *testing.T) {
	t.Parallel()
	base := place(t, "proj/file", "proj/dir/file", "proj/in -> dir", "proj/in-file -> dir/file", "proj/out -> ../outside", "proj/dangling-out -> ../outside/new", "outside/file")
	root := base + "/proj"
	for name, open := range openers() {
		for _, p := range []string{root + "/file", root + "/dir/file", root + "/dir", root, "/"} {
			for _, flag := range []int{unix.O_RDONLY, LookFlags} {
				fd, err := open(p, flag|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Errorf("%s: %q: %v", name, p, err)
					continue
				}
				unix.Close(fd)
			}
		}
		for _, p := range []string{"/in/file", "/in-file", "/out/file", "/out", "/dangling-out", "/out/missing"} {
			fd, err := open(root+p, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
			if err == nil {
				unix.Close(fd)
			}
			if err != unix.ELOOP {
				t.Errorf("%s: %q: %v, want ELOOP", name, p, err)
			}
		}
		for _, p := range []string{"/in", "/out", "/in/none"} {
			if _, err := open(root+p, LookFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != unix.ELOOP {
				t.Errorf("%s: %q as a directory: %v, want ELOOP", name, p, err)
			}
		}
		if _, err := open(root+"/missing", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != unix.ENOENT {
			t.Errorf("%s: missing: %v", name, err)
		}
		if _, err := open(root+"/file/x", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != unix.ENOTDIR {
			t.Errorf("%s: below a file: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(base + "/outside"); err != nil || len(entries) != 1 {
		t.Errorf("outside changed: %v, %v", entries, err)
	}
}
