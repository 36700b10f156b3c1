//go:build unix

package sessiondir

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
)

// Sweep removes, below a base of ResolveBase, the session directories of this user whose owner is dead
// and that are unnamed or were last used more than seven days ago. It returns the names of the removed
// ones.
//
// It may run at any time, in any number of processes. It neither waits for locks nor touches
// directories of other users, or that this package did not make. It reports what it cannot remove
// after it has removed the rest.
func Sweep(ctx context.Context, base string) (removed []string, err error) {
	return sweep(ctx, base, time.Now())
}

func sweep(ctx context.Context, base string, now time.Time) (removed []string, err error) {
	entries, err := entries(base)
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
			// A killed sweep left it, or another process deletes it right now; two may delete it at
			// once.
			if err := RemoveTree(ctx, base, name); err != nil {
				errs = append(errs, fmt.Errorf("sweep: %w", err))
			} else {
				removed = append(removed, name)
			}
			continue
		}
		// A command that begins in a named one meanwhile would find it locked.
		young := func() bool {
			fi, err := os.Lstat(filepath.Join(dir, lockFile))
			if errors.Is(err, fs.ErrNotExist) { // it is being made
				fi, err = os.Lstat(dir)
			}
			return err == nil && strings.HasPrefix(name, namedPrefix) && now.Sub(fi.ModTime()) <= namedMaxAge
		}
		if young() {
			continue
		}
		lock, err := lockDir(dir)
		if taken(err) {
			continue // alive, or another process removes it
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if young() { // checked under the lock: nobody can revive it meanwhile
			release(lock)
			continue
		}
		if err := discard(ctx, base, dir, lock); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

// entries lists the directories in base of this user with names of this package. Without base there
// are none.
func entries(base string) ([]fs.DirEntry, error) {
	if err := checkPrivate(base); errors.Is(err, fs.ErrNotExist) {
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
