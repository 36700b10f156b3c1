//go:build unix && !linux

package scan

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// readDir reads a directory, which is no symlink, and what it was before.
func readDir(path string) ([]dirent, *unix.Stat_t, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, nil, err
	}
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, nil, err
	}
	entries := make([]dirent, 0, len(list))
	for _, e := range list {
		d := dirent{name: e.Name(), kind: other}
		switch e.Type() {
		case 0:
			d.kind = regular
			if info, err := e.Info(); err == nil {
				if st, ok := info.Sys().(*syscall.Stat_t); ok {
					d.inode = st.Ino
				}
			}
		case fs.ModeDir:
			d.kind = directory
		case fs.ModeSymlink:
			d.kind = symlink
		case fs.ModeSocket:
			d.kind = socket
		}
		entries = append(entries, d)
	}
	return entries, &st, nil
}

// identify gives the identity of what is at path now, or the zero one.
func identify(path []byte) identity {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Lstat(string(path), &st) }); err != nil {
		return identity{}
	}
	return identityOf(&st)
}

// localClock says that nothing is known of a file system's clock.
func localClock(string) bool { return false }
