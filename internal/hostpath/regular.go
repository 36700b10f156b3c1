//go:build unix

package hostpath

import (
	"errors"
	"fmt"
	"io"
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
	if openErr != nil {
		return nil, fmt.Errorf("open %s: %w", Quote(path), openErr)
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() <= limit {
		// Its readers read nothing of an empty file. Files of /proc are empty: a read of kmsg would wait, and take messages from other readers.
		return &RegularFile{io.NewSectionReader(f, 0, info.Size()), f}, nil
	}
	f.Close()
	if err == nil {
		err = fmt.Errorf("%s has more than %d bytes, or is %w", Quote(path), limit, ErrIrregular)
	}
	return nil, err
}

// ReadRegular reads such a file, and closes it.
func ReadRegular(fd int, openErr error, path string, limit int64) ([]byte, error) {
	f, err := Regular(fd, openErr, path, limit)
	if err != nil {
		return nil, err
	}
	defer f.File.Close()
	data := make([]byte, f.Size()) // io.ReadAll takes several times that
	n, err := f.ReadAt(data, 0)
	if err == io.EOF { // it is shorter by now
		err = nil
	}
	return data[:n], err
}

// ReadFile reads a regular file of at most limit bytes. If its path has a symlink, a command can have led it
// to a device that acts when it is opened.
func ReadFile(path string, limit int64) ([]byte, error) {
	fd, err := OpenNoSymlinks(path, Reading, 0)
	if err == unix.ELOOP {
		fd, err = openRegular(path)
	}
	return ReadRegular(fd, err, path, limit)
}

// ReadNoSymlinks reads a regular file of at most limit bytes. No component of its path may be a
// symlink. A fifo does not block it.
func ReadNoSymlinks(path string, limit int64) ([]byte, error) {
	fd, err := OpenNoSymlinks(path, Reading, 0)
	return ReadRegular(fd, err, path, limit)
}
