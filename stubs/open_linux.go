package stubs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// openDir opens a directory without following any symlink.
func openDir(path string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := retryFD(func() (int, error) {
		return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	})
	if err != unix.ENOSYS && err != unix.EPERM {
		return fd, err
	}
	// A kernel before 5.6, or a filter that knows no openat2.
	if fd, err = unix.Open("/", flags, 0); err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := retryFD(func() (int, error) { return unix.Openat(fd, name, flags, 0) })
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}
