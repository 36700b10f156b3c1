//go:build unix && !linux

package hostpath

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// LookFlags open for reading: no portable flag opens an unreadable directory.
const LookFlags = unix.O_RDONLY

func hasACL(string) bool { return false } // elsewhere the mode does not include a list

// openRegular opens a regular file. Somebody can exchange the file before it is open: no flag looks without an open.
func openRegular(path string) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, cmp.Or(err, ErrIrregular)
	}
	return Openat(unix.AT_FDCWD, path, Reading, 0)
}
