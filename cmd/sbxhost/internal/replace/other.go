//go:build !unix

package replace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/config/source"
)

// A File is a file that is about to be replaced. No command runs here that could lead
// its path elsewhere.
type File struct{ Path string }

func Open(dir, name string, _ func() []string) (*File, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	path, err := filepath.EvalSymlinks(name)
	return &File{path}, err
}

func (w *File) Close() {}

func (w *File) Replace(before, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(w.Path), ".sbxhost-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		var now []byte
		if now, err = source.Read(w.Path); err == nil && !bytes.Equal(now, before) {
			err = cli.Hint(fmt.Errorf("%s was changed meanwhile", cli.Quote(w.Path)), "run it again")
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), w.Path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// New writes a file that must not exist, unless forced.
func New(path string, _ func() []string, text []byte, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, os.ErrExist) {
		return cli.Hint(fmt.Errorf("%s exists", cli.Quote(path)), "-force replaces it")
	} else if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
