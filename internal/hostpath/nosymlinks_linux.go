package hostpath

import (
	"errors"

	"golang.org/x/sys/unix"
)

// OpenNoSymlinks opens a clean absolute path, and fails with ELOOP if any component of it is a
// symlink. os.Root and RESOLVE_BENEATH are not enough: they follow symlinks that stay below the
// root, and these can lead into a read-only root nested in it or to a sensitive name.
func OpenNoSymlinks(path string, flag int, perm uint32) (int, error) {
	return OpenNoSymlinksAt(unix.AT_FDCWD, path, flag, perm)
}

// OpenNoSymlinksAt is OpenNoSymlinks for a clean path beneath dir, too.
func OpenNoSymlinksAt(dir int, path string, flag int, perm uint32) (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(flag), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if flag&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	err = Retry(func() (err error) {
		fd, err = unix.Openat2(dir, path, &how)
		return err
	})
	if err == unix.ENOSYS || err == unix.EPERM && !openat2Works() {
		return openStepwise(dir, path, flag, perm)
	}
	return fd, err
}

// openat2Works distinguishes an EPERM of the file from one of a container's seccomp filter that
// does not know openat2.
func openat2Works() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err == nil {
		unix.Close(fd)
	}
	return !errors.Is(err, unix.EPERM)
}
