package stubs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// openBySteps opens a directory one name after another, none of which may be a
// symlink: flags have O_NOFOLLOW.
func openBySteps(path string, flags int) (int, error) {
	fd, err := unix.Open("/", flags, 0)
	if err != nil {
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
