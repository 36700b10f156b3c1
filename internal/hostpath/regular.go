//go:build unix

package hostpath

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Reading opens a file for reading. A fifo does not block it.
const Reading = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// ErrIrregular says that something else is there than a regular file, or a larger one than is read.
var ErrIrregular = errors.New("not a regular file")

// A RegularFile is an open file. Its Size is the size at the time of the opening.
type RegularFile struct {
	*io.SectionReader
	File *os.File
}

// Regular takes a descriptor of a regular file of at most limit bytes, or closes it. openErr says why it is
// not open. To open it with O_NONBLOCK keeps a fifo from blocking the caller.
func Regular(fd int, openErr error, path string, limit int64) (*RegularFile, error) {
	size, err := regularSize(fd, openErr, path, limit)
	if err != nil {
		return nil, err
	}
	// Its readers read nothing of an empty file. Files of /proc are empty: a read of kmsg would wait, and take messages from other readers.
	f := os.NewFile(uintptr(fd), path)
	return &RegularFile{io.NewSectionReader(f, 0, size), f}, nil
}

// regularSize returns the size of a file for Regular. With an error, it closes the descriptor.
func regularSize(fd int, err error, path string, limit int64) (int64, error) {
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", Quote(path), err)
	}
	var st unix.Stat_t
	err = Retry(func() error { return unix.Fstat(fd, &st) })
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size <= limit {
		return st.Size, nil
	}
	unix.Close(fd)
	return 0, cmp.Or(err, fmt.Errorf("%s has more than %d bytes, or is %w", Quote(path), limit, ErrIrregular))
}

// ReadRegular reads at most most bytes of such a file, and closes it. It makes no os.File: before and
// after each command, the host reads dozens.
func ReadRegular(fd int, openErr error, path string, limit, most int64) ([]byte, error) {
	size, err := regularSize(fd, openErr, path, limit)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data, n := make([]byte, min(size, most)), 0
	for more := 1; n < len(data) && (more > 0 || err == unix.EINTR); n += max(more, 0) { // it can be shorter by now
		more, err = unix.Pread(fd, data[n:], int64(n))
	}
	return data[:n], err
}

// Beginning returns the first n bytes of a regular file; none with an error. No component of its path may
// be a symlink.
func Beginning(path string, n int64) []byte {
	fd, err := OpenNoSymlinks(path, Reading, 0)
	text, _ := ReadRegular(fd, err, path, math.MaxInt64, n)
	return text
}

// ReadFile reads a regular file of at most limit bytes. If its path has a symlink, a command can have led it
// to a device that acts when it is opened.
func ReadFile(path string, limit int64) ([]byte, error) {
	fd, err := OpenNoSymlinks(path, Reading, 0)
	if err == unix.ELOOP {
		fd, err = openRegular(path)
	}
	return ReadRegular(fd, err, path, limit, limit)
}

// ReadNoSymlinks reads a regular file of at most limit bytes. No component of its path may be a
// symlink. A fifo does not block it.
func ReadNoSymlinks(path string, limit int64) ([]byte, error) {
	fd, err := OpenNoSymlinks(path, Reading, 0)
	return ReadRegular(fd, err, path, limit, limit)
}
