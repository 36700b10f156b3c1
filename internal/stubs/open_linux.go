package stubs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// createFile creates a file and claims it. The file has its content and its mark from the start:
// half of the content may mean something else to a process that reads it then.
func createFile(dir int, name, content string) (fd int, err error) {
	fd, err = hostpath.Openat(dir, ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return createNamed(dir, name, content) // not every file system has unnamed files
	}
	if err = fill(dir, fd, content); err == nil {
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	}
	if err == nil {
		return fd, nil
	}
	unix.Close(fd)
	if err == unix.ENOENT { // no /proc
		return createNamed(dir, name, content)
	}
	return -1, err
}
