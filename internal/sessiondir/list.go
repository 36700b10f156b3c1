//go:build unix

package sessiondir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Claim records that the session directory belongs to the workspace at root. It refuses another
// workspace's with ErrWorkspace: files of one project's commands must not reach those of another.
// An unnamed session directory needs no record.
func (d *Dir) Claim(root string) error {
	if _, err := d.Path(); err != nil || d.name == "" {
		return err
	}
	owner, err := readRecord(d.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = d.record(root)
		d.unrecorded = err != nil
		return err
	case err != nil:
		return err
	case owner == "":
		return fmt.Errorf("session %q: %w that is unknown: its record is empty; remove the session first", d.name, ErrWorkspace)
	case owner != root:
		return fmt.Errorf("session %q: %w, %q; choose another name here, or remove the session first", d.name, ErrWorkspace, owner)
	}
	return nil
}

// record writes the record, all of it or nothing, even after a power cut.
func (d *Dir) record(root string) error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return private(err)
	}
	defer dir.Close()
	return private(hostpath.At(dir).Put(hostpath.TempName(), recordFile, []byte(root), 0o600, nil))
}

// readRecord returns the root of the workspace of the session directory dir.
func readRecord(dir string) (string, error) {
	root, err := hostpath.ReadNoSymlinks(filepath.Join(dir, recordFile), unix.PathMax)
	return string(root), private(err)
}

// List lists the named sessions below base, by name.
func List(base string) ([]Info, error) {
	base, err := ResolveBase(base, nil)
	if err != nil {
		return nil, err
	}
	entries, err := entries(base)
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), namedPrefix)
		if !ok {
			continue
		}
		s := Info{Name: name, Dir: filepath.Join(base, e.Name())}
		fi, err := os.Lstat(filepath.Join(s.Dir, lockFile))
		if err != nil {
			continue // removed meanwhile, or not finished
		}
		s.LastUsed = fi.ModTime()
		s.Workspace, _ = readRecord(s.Dir)
		lock, err := lockDir(s.Dir)
		if err == nil {
			release(lock)
		}
		if s.InUse = taken(err); s.InUse {
			s.Users = lockHolders(filepath.Join(s.Dir, lockFile))
		}
		list = append(list, s)
	}
	return list, nil
}

// Remove removes the directory of a named session. It returns ErrInUse while a process owns it, and
// fs.ErrNotExist if there is none.
func Remove(base, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	base, err := ResolveBase(base, nil)
	if err != nil {
		return err
	}
	dir := filepath.Join(base, namedPrefix+name)
	if err := checkPrivate(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("session %q: %w", name, fs.ErrNotExist)
	} else if err != nil {
		return err
	}
	lock, err := lockDir(dir)
	if taken(err) {
		return inUse(name, dir)
	}
	if err != nil {
		return err
	}
	return discard(context.Background(), base, dir, lock)
}
