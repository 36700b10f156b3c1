//go:build unix

package approvals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// maxFile is the largest file that the package reads, in bytes: far more than a person approves.
const maxFile = 64 << 20

// lockPatience is how long a writer waits for others; tests have many.
var lockPatience = 10 * time.Second

// read returns the file's text; nil if there is no file.
func (d document) read() ([]byte, error) {
	dir, err := d.openDir()
	if errors.Is(err, fs.ErrNotExist) || d.dir == "" {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer dir.Close()
	return d.readIn(dir)
}

// openDir opens the store's directory. Nobody else may be able to write to it: such a user could
// replace the file despite its mode.
func (d document) openDir() (*os.File, error) {
	if !filepath.IsAbs(d.dir) {
		return nil, errors.New("this program has no absolute path to store approvals at")
	}
	at, err := hostpath.Resolve("/", d.dir, nil)
	if err != nil {
		return nil, err
	}
	fd, err := hostpath.OpenNoSymlinks(at, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, hostpath.OpenError(d.dir, err)
	}
	dir := os.NewFile(uintptr(fd), d.dir)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if reason := foreign(&st); err == nil && reason != "" {
		err = document{dir: d.dir}.tampered("%s", reason)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// foreign says why somebody else could have written a file.
func foreign(st *unix.Stat_t) string {
	switch {
	case int(st.Uid) != os.Geteuid():
		return fmt.Sprintf("belongs to user %d, not to you (%d)", st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return fmt.Sprintf("can be written by others (mode %#o)", st.Mode&0o777)
	}
	return ""
}

func (d document) readIn(dir *os.File) ([]byte, error) {
	fd, err := unix.Openat(int(dir.Fd()), d.name, hostpath.Reading|unix.O_NOFOLLOW, 0)
	switch err {
	case nil:
	case unix.ENOENT:
		return nil, nil
	case unix.ELOOP:
		return nil, d.tampered("is a symlink")
	default:
		return nil, hostpath.OpenError(d.path(), err)
	}
	f := os.NewFile(uintptr(fd), d.path())
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: d.path(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, d.tampered("is not a regular file")
	}
	if reason := foreign(&st); reason != "" {
		return nil, d.tampered("%s", reason)
	}
	if st.Nlink > 1 { // a file replaced by a writer has one name
		return nil, d.tampered("has another name, by which it can be written")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, d.tampered("is longer than %d bytes", maxFile)
	case len(text) == 0:
		return nil, d.tampered("is empty")
	}
	return text, nil
}

// locked calls do with the store's directory, under the lock of all writers. The lock has its own
// file, because writers replace the store's file.
func (d document) locked(ctx context.Context, do func(dir *os.File) error) error {
	if _, err := os.Stat(d.dir); errors.Is(err, fs.ErrNotExist) && filepath.IsAbs(d.dir) {
		if err := hostpath.MakePrivate(d.dir, 0o700); err != nil {
			return err
		}
	}
	dir, err := d.openDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	fd, err := hostpath.LockAt(ctx, int(dir.Fd()), d.name+".lock", unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s: another process holds the lock: %w", d.path(), ctx.Err())
	} else if err != nil {
		return fmt.Errorf("%s: %w", d.dir, err)
	}
	defer hostpath.Unlock(fd)
	return do(dir)
}

// replace writes the text, completely or not at all. The caller holds the lock, so a file with the
// temporary name is from a killed writer.
func (d document) replace(dir *os.File, text []byte) error {
	at, temp := hostpath.At(dir), d.name+".new"
	if err := at.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return at.Put(temp, d.name, text, 0o600, nil)
}
