package replace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/source"
)

// lockPatience is how long a change of a file waits for others.
const lockPatience = 10 * time.Second

// A File is a file that sbxhost is about to replace.
type File struct {
	Path   string // without symlinks
	dir    *hostpath.Dir
	locked *os.File
}

// Open finds the file that a person named, by symlinks that no command can have made, and locks it.
func Open(dir, name string, writable func() []string) (w *File, err error) {
	w = &File{}
	if w.Path, err = hostpath.Resolve(dir, name, writable); err != nil {
		return nil, err
	}
	if w.dir, err = hostpath.OpenDir("/", filepath.Dir(w.Path), writable); err != nil {
		return nil, err
	}
	if w.locked, err = lockFile(w.Path); err != nil {
		w.dir.Close()
		return nil, err
	}
	return w, nil
}

func (w *File) Replace(before, text []byte) error {
	return Replace(w.dir, filepath.Base(w.Path), before, text)
}

func (w *File) Close() {
	w.dir.Close()
	w.locked.Close()
}

// lockFile makes other commands of sbxhost wait before they change the file, until the caller
// closes the returned file: each reads the file and replaces it later, and would lose a change in
// between. The path has no symlinks.
func lockFile(path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		err = hostpath.Lock(ctx, int(f.Fd()), unix.LOCK_EX)
		switch {
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			return f, nil // some file systems have no locks; Replace compares in any case
		case err == nil && isAt(f, path):
			return f, nil
		}
		// Another process has it, or its last holder has replaced it.
		f.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: another process has it locked; nothing was written", cli.Quote(path))
		}
	}
}

func isAt(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	at, err := os.Lstat(path)
	return err == nil && os.SameFile(is, at)
}

// Replace puts text in the place of a regular file, completely or not at all, with that file's
// permissions. If before is not nil, the file must still contain that.
func Replace(dir *hostpath.Dir, name string, before, text []byte) (err error) {
	path := filepath.Join(dir.Path(), name)
	was, err := dir.Lstat(name)
	switch {
	case err != nil:
		return err
	case was.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file; remove it first", cli.Quote(path))
	case was.Mode&0o200 == 0:
		return fmt.Errorf("%s is read-only: chmod u+w it", cli.Quote(path))
	}
	return Put(dir, name, text, 0o600, func(f *os.File) error {
		if os.Geteuid() == 0 {
			// A file that root changes stays its owner's. Nobody else can give a file away.
			if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
				return err
			}
		}
		if err := f.Chmod(fs.FileMode(was.Mode & 0o777)); err != nil {
			return err
		}
		if before == nil {
			return nil
		}
		now, err := source.Read(path)
		if err == nil && !bytes.Equal(now, before) {
			err = cli.Hint(errors.New("it was changed meanwhile"), "run it again")
		}
		return err
	})
}

// Put puts a file of that name into a directory, completely or not at all. If ready is not nil, it
// can refuse the file at the end.
func Put(dir *hostpath.Dir, name string, text []byte, mode fs.FileMode, ready func(*os.File) error) error {
	f, temp, err := dir.Temp(mode)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", cli.Quote(filepath.Join(dir.Path(), name)), err)
	}
	_, err = f.Write(text)
	if err == nil && ready != nil {
		err = ready(f)
	}
	if err == nil {
		// Otherwise, after a crash of the machine, the new name may exist without the text.
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		dir.Remove(temp)
		return fmt.Errorf("%s was not written: %w", cli.Quote(filepath.Join(dir.Path(), name)), err)
	}
	return nil
}

// New writes a file that must not exist, unless forced, and follows no symlink that a command can
// have made.
func New(path string, writable func() []string, text []byte, force bool) error {
	dir, err := hostpath.OpenDir("/", filepath.Dir(path), writable)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !force:
		return cli.Hint(fmt.Errorf("%s exists", cli.Quote(path)), "-force replaces it")
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file; remove it first", cli.Quote(path))
	default:
		return Replace(dir, name, nil, text)
	}
	f, err := dir.Create(name, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = cmp.Or(err, f.Close())
	if err != nil {
		dir.Remove(name)
	}
	return err
}
