//go:build unix && !linux

package scan

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readDir reads a directory. It does not follow a symlink. The resolution of the file system's
// clock is unknown.
func readDir(path string, now time.Time) (l listing, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return l, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return l, err
	}
	l.id = identityOf(&st)
	l.timesReliable = timesReliable(l.id, now)
	list, err := f.ReadDir(-1)
	if err != nil {
		return l, err
	}
	l.entries = make([]dirent, 0, len(list))
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
		l.entries = append(l.entries, d)
	}
	return l, nil
}

// identify returns the identity of the file at path now, or zero.
func identify(path string) identity {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Lstat(path, &st) }); err != nil {
		return identity{}
	}
	return identityOf(&st)
}

func identityOf(st *unix.Stat_t) identity {
	return identity{dev: uint64(st.Dev), ino: st.Ino, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

func clockLead() int64 { return 0 }
