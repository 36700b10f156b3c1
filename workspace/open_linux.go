package workspace

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// openNoSymlinks opens a clean absolute path in which no component is a
// symlink. os.Root and RESOLVE_BENEATH are not enough: they follow symlinks
// that stay below the root, and so into a read-only root nested in it or to a
// sensitive name. Without any symlink the path is beneath its root as spelled.
func openNoSymlinks(path string, flag int, perm uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flag | unix.O_LARGEFILE),
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
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

// openStepwise is openNoSymlinks for kernels before 5.6: one openat a
// component, each refusing a symlink.
func openStepwise(path string, flag int, perm uint32) (int, error) {
	dir, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	rest := strings.TrimPrefix(path, "/")
	for {
		name, tail, more := strings.Cut(rest, "/")
		if !more {
			if name == "" {
				name = "."
			}
			fd, err := openatRetry(dir, name, flag|unix.O_NOFOLLOW, perm)
			unix.Close(dir)
			return fd, err
		}
		fd, err := openatRetry(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOTDIR {
			// O_DIRECTORY hides that it is a symlink; say so as openat2 does.
			var st unix.Stat_t
			if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				err = unix.ELOOP
			}
		}
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir, rest = fd, tail
	}
}
