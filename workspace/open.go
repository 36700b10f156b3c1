//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Open opens a file or directory for reading. See OpenFile.
func (w *Workspace) Open(path string) (*os.File, error) {
	return w.OpenFile(path, os.O_RDONLY, 0)
}

// OpenFile resolves path, for writing if flag writes, and opens the result so
// that no symlink is followed on the way, the last component included. As a
// resolved path has none, a symlink there has been put in its place since the
// check, and the error wraps ErrChanged. What is opened is therefore in the
// root that was checked: not outside, and not in a read-only root nested in a
// writable one.
//
// Only regular files and directories are opened, others are ErrNotRegular, and
// a fifo does not block. perm has its usual meaning for O_CREATE, without
// set-id and sticky bits. Missing parents are not made.
func (w *Workspace) OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	const writes = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREATE | os.O_TRUNC
	got, err := w.resolve(path, flag&writes != 0)
	if err != nil {
		return nil, err
	}
	// O_NONBLOCK: a fifo in place of the file would block the caller.
	fd, err := hostpath.OpenNoSymlinks(got.path, flag|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, uint32(perm.Perm()))
	switch {
	case err == nil:
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("open %q: %w: %w", got.path, ErrChanged, err)
	case errors.Is(err, syscall.ENXIO):
		return nil, fmt.Errorf("open %q: %w", got.path, ErrNotRegular)
	default:
		return nil, &fs.PathError{Op: "open", Path: got.path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "stat", Path: got.path, Err: err}
	}
	if t := st.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
		unix.Close(fd)
		return nil, fmt.Errorf("open %q: %w", got.path, ErrNotRegular)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: got.path, Err: err}
	}
	return os.NewFile(uintptr(fd), got.path), nil
}
