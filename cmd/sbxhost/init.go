package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/hostpath"
)

// init writes a configuration to begin with.
func (a *app) init(fs *flag.FlagSet) func() error {
	force := fs.Bool("force", false, "")
	return func() error {
		path := filepath.Join(a.absolute(fs.Arg(0)), config.FileName)
		if err := writeNew(path, a.commandDirs(host.Options{}, path), config.Sample(), *force); err != nil {
			return err
		}
		a.trustWritten(path, config.Sample())
		return a.print(printable(path) + "\n")
	}
}

// writeNew writes a file that must not exist, unless forced, and not by way of a
// symlink that a command can have made.
func writeNew(path string, writable func() []string, text []byte, force bool) error {
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
		return &hinted{fmt.Errorf("%s exists", quote(path)), "-force replaces it"}
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file; remove it first", quote(path))
	default:
		return replaceFile(dir, name, nil, text)
	}
	f, err := dir.Create(name, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		dir.Remove(name)
	}
	return err
}
