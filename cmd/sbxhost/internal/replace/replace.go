package replace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/source"
)

// Named is Replace for the file that a person has named, by symlinks that no command can have made.
func Named(cwd, name string, writable func() []string, before, text []byte) error {
	path, err := hostpath.Resolve(cwd, name, writable)
	if err != nil {
		return err
	}
	dir, err := hostpath.OpenDir("/", filepath.Dir(path), writable)
	if err != nil {
		return err
	}
	defer dir.Close()
	return Replace(dir, filepath.Base(path), before, text)
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
	return dir.Put(hostpath.TempName(), name, text, 0o600, func(f *os.File) error {
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

// New writes a file that must not exist, unless forced, and follows no symlink that a command can
// have made.
func New(path string, writable func() []string, text []byte, force bool) error {
	dir, err := hostpath.OpenDir("/", filepath.Dir(path), writable)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	f, err := dir.Create(name, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist) && force:
		return Replace(dir, name, nil, text)
	case errors.Is(err, fs.ErrExist):
		return cli.Hint(fmt.Errorf("%s exists", cli.Quote(path)), "-force replaces it")
	case err != nil:
		return err
	}
	_, err = f.Write(text)
	err = cmp.Or(err, f.Close())
	if err != nil {
		dir.Remove(name)
	}
	return err
}
