package hostpath

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenNoSymlinks opens a clean absolute path and fails with ELOOP if any component
// of it is a symlink.
func OpenNoSymlinks(path string, flag int, perm uint32) (int, error) {
	dir, err := Openat(unix.AT_FDCWD, "/", LookFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	parent, name := filepath.Split(path)
	for part := range strings.FieldsFuncSeq(parent, func(r rune) bool { return r == '/' }) {
		next, err := Openat(dir, part, LookFlags|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(dir)
		if err != nil {
			return -1, loop(err)
		}
		dir = next
	}
	defer unix.Close(dir)
	if name == "" {
		name = "."
	}
	fd, err := Openat(dir, name, flag|unix.O_NOFOLLOW, perm)
	return fd, loop(err)
}

// loop is the error for a symlink, for which FreeBSD has another number.
func loop(err error) error {
	if err == unix.EMLINK {
		return unix.ELOOP
	}
	return err
}
