package hostpath

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenNoSymlinks opens a clean absolute path and fails with ELOOP if any component
// of it is a symlink. os.Root and RESOLVE_BENEATH are not enough: they follow
// symlinks that stay below the root, and so into a read-only root nested in it or to
// a sensitive name.
func OpenNoSymlinks(path string, flag int, perm uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flag), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if flag&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOSYS || err == unix.EPERM && !openat2Works():
			return openStepwise(path, flag, perm)
		}
		return fd, err
	}
}

// openat2Works tells an EPERM of the file from that of a container's seccomp
// filter that predates openat2.
func openat2Works() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err == nil {
		unix.Close(fd)
	}
	return !errors.Is(err, unix.EPERM)
}

// openStepwise is OpenNoSymlinks without openat2: one openat a component, each
// refusing a symlink.
func openStepwise(path string, flag int, perm uint32) (int, error) {
	dir, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	rest := strings.TrimPrefix(path, "/")
	for {
		name, tail, more := strings.Cut(rest, "/")
		if name == "" {
			name = "."
		}
		how := unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		if !more {
			how = flag
		}
		fd, err := Openat(dir, name, how|unix.O_NOFOLLOW, perm)
		if err == unix.ENOTDIR && how&unix.O_DIRECTORY != 0 {
			// O_DIRECTORY hides that it is a symlink; say so as openat2 does.
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
