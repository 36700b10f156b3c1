package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/config"
)

// lockPatience is how long a change of a file waits for the others.
const lockPatience = 10 * time.Second

// lockFile has other commands of sbxhost that would change a file wait until the
// file that it gives is closed: each reads it, thinks, and replaces it, and what
// one has written in between would be lost. The path has no symlinks.
func lockFile(path string) (*os.File, error) {
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	late := time.After(lockPatience)
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		case err != nil:
			return f, nil // some file systems lock nothing; replaceFile compares all the same
		case isAt(f, path):
			return f, nil
		}
		// It is another's, or not the file any more: who had it has replaced it.
		f.Close()
		select {
		case <-retry.C:
		case <-late:
			return nil, fmt.Errorf("%s: another process has it locked; nothing was written", quote(path))
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

// replaceFile puts text in the place of a file, whole or not at all, with the
// file's permissions. Where before is not nil, the file must still say that.
func replaceFile(path string, before, text []byte) (err error) {
	mode := fs.FileMode(0o644)
	was, err := os.Stat(path)
	if err == nil {
		mode = was.Mode().Perm()
	}
	if mode&0o200 == 0 {
		return fmt.Errorf("%s is read-only: chmod u+w it", quote(path))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".sbxhost-*")
	if err != nil {
		return fmt.Errorf("%s cannot be replaced: %w", quote(path), err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if was != nil {
		// What root changes stays its owner's. Nobody else can give a file away.
		if st, ok := was.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
			err = errors.Join(err, f.Chown(int(st.Uid), int(st.Gid)))
		}
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync() // else a machine that fails may have the new name and not the text
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("%s was not replaced: %w", quote(path), err)
	}
	if before != nil {
		now, err := config.Read(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, before) {
			return &hinted{fmt.Errorf("%s was changed meanwhile; nothing was written", quote(path)), "run it again"}
		}
	}
	return os.Rename(f.Name(), path)
}
