//go:build unix && !linux

package scan

import "golang.org/x/sys/unix"

// identifyAt is identify relative to fd, and for fd itself if path is empty. The resolution of the
// file system's clock is unknown.
func identifyAt(fd int, path string) identity {
	var st unix.Stat_t
	err := ignoringEINTR(func() error {
		if path == "" {
			return unix.Fstat(fd, &st)
		}
		return unix.Fstatat(fd, path, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return identity{}
	}
	return identity{dev: uint64(st.Dev), ino: st.Ino, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

func clockLead() int64 { return 0 }
