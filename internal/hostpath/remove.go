//go:build unix

package hostpath

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxDepth is how far RemoveTree descends before it moves a directory to the top: a command can
// nest directories deeper than there are file descriptors.
const maxDepth = 64

// maxNames is how many names of a directory RemoveTree holds at once, in each of maxDepth: a command can
// make millions.
const maxNames = 1_000

// maxLate is how often RemoveTree starts over after others have put something in its way.
const maxLate = 16

// RemoveTree removes the directory name in base with its content. Untrusted commands made that
// content: RemoveTree follows no symlink, changes modes that lock the owner out (the work
// directory of an overlay is 000), and has no limit of depth. Others may remove the tree at
// the same time. When ctx ends, the rest stays for the next call. Its error wraps
// ErrNotRemoved for files that it could not remove.
func RemoveTree(ctx context.Context, base, name string) error {
	parent, err := Openat(unix.AT_FDCWD, base, listing, 0)
	if err != nil {
		return OpenError(base, err)
	}
	defer unix.Close(parent)
	path := filepath.Join(base, name)
	top, err := openDir(parent, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return OpenError(path, err)
	}
	defer unix.Close(top)
	// Each round empties top, except for directories that it moved up from below maxDepth, so the
	// rounds end. Another process may also move directories up, between our look and our rmdir.
	for late := 0; ; {
		moved, err := empty(ctx, top, top, path, 0)
		if moved && ctx.Err() == nil {
			continue // remove the others nevertheless
		}
		if err != nil {
			return err
		}
		err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if late++; err != unix.ENOTEMPTY || late == maxLate {
			return &fs.PathError{Op: "rmdir", Path: path, Err: err}
		}
	}
}

// empty removes the content of dir; path is only for the error. It moves directories below maxDepth
// to top. After a failure it tries the next name. It returns the first error. A file system may pass
// over names while others go: of more than maxNames, empty looks for the rest until nothing more goes.
func empty(ctx context.Context, top, dir int, path string, depth int) (moved bool, err error) {
	for late, again := 0, true; again && late < maxLate; late++ {
		if _, err := unix.Seek(dir, 0, io.SeekStart); err != nil {
			return moved, err
		}
		err, again = nil, false
		for part := 0; ; part++ {
			entries, listErr := Entries(nil, dir, maxNames)
			for _, e := range entries {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				at := filepath.Join(path, e.Name)
				m, failed := remove(ctx, top, dir, e.Name, at, depth)
				moved, again = moved || m, again || failed == nil && part > 0
				if failed != nil && !errors.Is(failed, ErrNotRemoved) && ctx.Err() == nil {
					failed = fmt.Errorf("%q %w: %w", at, ErrNotRemoved, failed)
				}
				err = cmp.Or(err, failed)
			}
			if listErr == unix.ENOENT || listErr == nil && len(entries) == 0 { // another process has removed dir, or this is all
				break
			} else if listErr != nil {
				return moved, cmp.Or(err, listErr)
			}
		}
	}
	return moved, err
}

// ErrNotRemoved is wrapped by the error for a file that RemoveTree could not remove.
var ErrNotRemoved = errors.New("cannot be removed")

// remove removes one name of a directory. moved says that it moved a directory to top because of
// its depth.
func remove(ctx context.Context, top, dir int, name, path string, depth int) (moved bool, err error) {
	err = unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return false, nil
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == nil || err == unix.ENOENT {
		return false, nil // an empty directory, as most in a session
	}
	// Linux returns EISDIR, macOS EPERM, a directory of mode 500 EACCES. So the type decides, not
	// the errno.
	sub, openErr := openDir(dir, name)
	switch openErr {
	case nil:
	case unix.ENOENT:
		return false, nil
	case unix.ENOTDIR:
		return false, err // the error of unlink says why
	default:
		return false, openErr
	}
	if depth >= maxDepth {
		unix.Close(sub)
		if err = unix.Renameat(dir, name, top, rand.Text()); err != nil && err != unix.ENOENT {
			return false, err
		}
		return true, nil
	}
	moved, err = empty(ctx, top, sub, path, depth+1)
	unix.Close(sub)
	if err == nil {
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == unix.ENOENT {
			err = nil
		}
	}
	return moved, err
}

// openDir opens the directory name in parent, but no symlink, and gives its owner the rights to
// empty it. It leaves a mount point alone.
func openDir(parent int, name string) (int, error) {
	const flags = listing | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := Openat(parent, name, flags, 0)
	if err == unix.EACCES {
		if err := chmodDir(parent, name); err != nil {
			return -1, err
		}
		fd, err = Openat(parent, name, flags, 0)
	}
	if err == unix.ELOOP {
		err = unix.ENOTDIR
	}
	if err != nil {
		return -1, err
	}
	if mountRoot(fd) {
		unix.Close(fd)
		return -1, unix.EBUSY
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 && int(st.Uid) == os.Geteuid() {
		_ = unix.Fchmod(fd, 0o700) // if it fails, the unlink reports it
	}
	return fd, nil
}
