package stubs

import (
	"strings"

	"golang.org/x/sys/unix"
)

// openDir opens a directory without following any symlink.
func openDir(path string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
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

// createFile creates a file.
func createFile(dir int, name, content string) error { return createNamed(dir, name, content) }

// renameNew moves a file or directory to where there is nothing.
func renameNew(fromDir int, from string, toDir int, to string) error {
	return unix.RenameatxNp(fromDir, from, toDir, to, unix.RENAME_EXCL)
}
