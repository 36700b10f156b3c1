package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep removes, below base, the umbrellas of this user whose owner is dead and
// that are unnamed or were last used more than seven days ago. It returns the
// names of what it removed. Empty base means SessionsDir.
//
// It may run at any time, in any number of processes. It neither waits for
// locks nor touches what belongs to other users or was not made by this
// package. What cannot be removed is reported, after the rest has been.
func Sweep(ctx context.Context, base string) (removed []string, err error) {
	return sweep(ctx, base, time.Now())
}

func sweep(ctx context.Context, base string, now time.Time) (removed []string, err error) {
	base, err = umbrellaBase(base)
	if err != nil {
		return nil, err
	}
	entries, err := readSessions(base)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return removed, errors.Join(append(errs, err)...)
		}
		name := e.Name()
		dir := filepath.Join(base, name)
		if strings.HasPrefix(name, deadPrefix) {
			// Left by a sweep that was killed, or being deleted right now; both
			// of us deleting does no harm.
			if err := removeTree(base, name); err != nil {
				errs = append(errs, fmt.Errorf("sweep: %w", err))
			} else {
				removed = append(removed, name)
			}
			continue
		}
		lock, err := lockDir(dir, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, errLost) {
			continue // alive, or another's to remove
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if strings.HasPrefix(name, namedPrefix) {
			// Asked under the lock: nobody can be reviving it meanwhile.
			fi, err := lock.Stat()
			if err != nil || now.Sub(fi.ModTime()) <= namedMaxAge {
				lock.Close()
				continue
			}
		}
		if err := discard(base, dir, lock); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

// readSessions lists what in base is a directory of this user and has a name
// that this package gives. No base: none.
func readSessions(base string) ([]fs.DirEntry, error) {
	if err := checkOwn(base); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		ours := strings.HasPrefix(e.Name(), unnamedPrefix) || strings.HasPrefix(e.Name(), namedPrefix) ||
			strings.HasPrefix(e.Name(), deadPrefix)
		if !ours || !e.IsDir() {
			return true
		}
		fi, err := e.Info()
		return err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) != os.Geteuid()
	}), nil
}

// Session describes a named session's umbrella.
type Session struct {
	Name     string
	Dir      string
	LastUsed time.Time
	InUse    bool // some process owned it when it was looked at
}

// Sessions lists the named sessions below base, by name. Empty base means
// SessionsDir.
func Sessions(base string) ([]Session, error) {
	base, err := umbrellaBase(base)
	if err != nil {
		return nil, err
	}
	entries, err := readSessions(base)
	if err != nil {
		return nil, err
	}
	var list []Session
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), namedPrefix)
		if !ok {
			continue
		}
		s := Session{Name: name, Dir: filepath.Join(base, e.Name())}
		fi, err := os.Lstat(filepath.Join(s.Dir, lockFile))
		if err != nil {
			continue // removed since, or being made
		}
		s.LastUsed = fi.ModTime()
		lock, err := lockDir(s.Dir, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			lock.Close()
		}
		s.InUse = errors.Is(err, errLost)
		list = append(list, s)
	}
	return list, nil
}

// RemoveSession removes the named session's umbrella. It is ErrSessionInUse
// while a process owns it and fs.ErrNotExist if there is none. Empty base means
// SessionsDir.
func RemoveSession(base, name string) error {
	if err := checkSessionName(name); err != nil {
		return err
	}
	base, err := umbrellaBase(base)
	if err != nil {
		return err
	}
	dir := filepath.Join(base, namedPrefix+name)
	if err := checkOwn(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("session %q: %w", name, fs.ErrNotExist)
	} else if err != nil {
		return err
	}
	lock, err := lockDir(dir, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, errLost) {
		return fmt.Errorf("session %q: %w", name, ErrSessionInUse)
	}
	if err != nil {
		return err
	}
	return discard(base, dir, lock)
}
