package hostpath

import (
	"cmp"
	"strconv"

	"golang.org/x/sys/unix"
)

// LookFlags open a directory for path lookup, readable or not.
const LookFlags = unix.O_PATH

// hasACL reports whether a file has an access control list beyond its mode.
func hasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

// openRegular opens a regular file, and nothing else.
func openRegular(path string) (int, error) {
	at, err := Openat(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, cmp.Or(err, ErrIrregular)
	}
	fd, err := Openat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(at), Reading, 0)
	if err == unix.ENOENT { // no /proc is mounted
		return Openat(unix.AT_FDCWD, path, Reading, 0)
	}
	return fd, err
}
