package hostpath

import (
	"strings"

	"golang.org/x/sys/unix"
)

// openStepwise is OpenNoSymlinksAt without openat2: one openat for each component, and each refuses
// a symlink.
func openStepwise(dir int, path string, flag int, perm uint32) (int, error) {
	rest, absolute := strings.CutPrefix(path, "/")
	top := "."
	if absolute {
		top = "/"
	}
	dir, err := unix.Openat(dir, top, LookFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for {
		name, tail, more := strings.Cut(rest, "/")
		if name == "" {
			name = "."
		}
		how := LookFlags | unix.O_DIRECTORY | unix.O_CLOEXEC
		if !more {
			how = flag
		}
		fd, err := Openat(dir, name, how|unix.O_NOFOLLOW, perm)
		if err == unix.ENOTDIR && how&unix.O_DIRECTORY != 0 {
			// O_DIRECTORY hides that it is a symlink; report that as openat2 does.
			var st unix.Stat_t
			if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				err = unix.ELOOP
			}
		}
		unix.Close(dir)
		if err != nil || !more {
			return fd, err
		}
		dir, rest = fd, tail
	}
}
