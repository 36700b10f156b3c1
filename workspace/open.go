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

// OpenFile resolves path, for writing if flag writes, and opens the result without following any
// symlink, also as the last component. A resolved path has none, so a symlink there is new since
// the check, and the error wraps ErrChanged. So the opened file is in the root that was checked:
// not outside, and not in a read-only root nested in a writable one.
//
// It opens only regular files and directories; others are ErrNotRegular, and a fifo does not block.
// perm is as usual for O_CREATE, without set-id and sticky bits. It makes no missing parents.
func (w *Workspace) OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	const writes = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREATE | os.O_TRUNC
	got, err := w.resolve(path, flag&writes != 0)
	if err != nil {
		return nil, err
	}
	// O_NONBLOCK: a fifo at this path would block the caller.
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
