package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// SessionsDir returns the directory that holds the user's umbrellas:
// $XDG_CACHE_HOME/sbxhost/sessions, else ~/.cache/sbxhost/sessions, on macOS
// ~/Library/Caches/sbxhost/sessions. A relative XDG_CACHE_HOME is ignored, as
// its specification demands. lookup reads the environment.
//
// It is not in /tmp, where the names are anybody's to take.
func SessionsDir(lookup func(string) (string, bool)) (string, error) {
	return sessionsDir(runtime.GOOS, lookup)
}

func sessionsDir(goos string, lookup func(string) (string, bool)) (string, error) {
	cache, _ := lookup("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		home, _ := lookup("HOME")
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("sessions: neither XDG_CACHE_HOME nor HOME is an absolute path; set one: %w", ErrInvalidPath)
		}
		if goos == "darwin" {
			cache = filepath.Join(home, "Library", "Caches")
		} else {
			cache = filepath.Join(home, ".cache")
		}
	}
	return filepath.Join(cache, "sbxhost", "sessions"), nil
}

// SystemSessionsDir returns the directory, root's own, that holds a directory
// by the number of each user for whose commands root has made umbrellas. It is
// neither in root's home, which such a user cannot pass through, nor in the
// user's, where the user could lead root astray by symlinks.
func SystemSessionsDir() string { return systemSessionsDir(runtime.GOOS) }

func systemSessionsDir(goos string) string {
	if goos == "darwin" {
		return "/Library/Caches/sbxhost"
	}
	return "/var/cache/sbxhost"
}

// MakeBase makes the directory base, which is to hold umbrellas, and checks
// that it is this process's user's alone to write. A program that shows part of
// the host to commands calls it so that it can hide what there is not yet.
func MakeBase(base string) error {
	base, err := umbrellaBase(base)
	if err != nil {
		return err
	}
	return prepareBase(base, 0o700)
}

// prepareBase makes the directories that umbrellas lie in and refuses to use
// another user's. Root in a user's home, as with a plain sudo, would else leave
// directories there that the user cannot write, or follow links of the user's.
func prepareBase(base string, mode fs.FileMode) error {
	if checkOwn(base) == nil {
		return nil // the usual case
	}
	var missing []string
	dir := base
	for {
		fi, err := os.Lstat(dir)
		if err == nil {
			if fi.Mode()&fs.ModeSymlink != 0 {
				if fi, err = os.Stat(dir); err != nil {
					return fmt.Errorf("umbrella: %w", err)
				}
			}
			if len(missing) == 0 {
				break
			}
			uid := fi.Sys().(*syscall.Stat_t).Uid
			if uid != 0 && int(uid) != os.Geteuid() {
				return fmt.Errorf("umbrella: %q belongs to uid %d and this process is uid %d; set XDG_CACHE_HOME to a directory of your own: %w", dir, uid, os.Geteuid(), ErrUnsafeCache)
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("umbrella: %w", err)
		}
		missing = append(missing, dir)
		dir = filepath.Dir(dir)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := mkdir(missing[i], mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("umbrella: %w", err)
		}
	}
	return checkOwn(base)
}

// mkdir is os.Mkdir whatever the umask is.
func mkdir(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if err == nil && mode != 0o700 {
		err = os.Chmod(dir, mode)
	}
	return err
}

// checkOwn refuses a directory that is a symlink, another user's, or writable
// by others.
func checkOwn(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("umbrella: %w", err)
	}
	uid := fi.Sys().(*syscall.Stat_t).Uid
	switch {
	case !fi.IsDir():
		return fmt.Errorf("umbrella: %q is not a directory: %w", dir, ErrUnsafeCache)
	case int(uid) != os.Geteuid():
		return fmt.Errorf("umbrella: %q belongs to uid %d and this process is uid %d; set XDG_CACHE_HOME to a directory of your own: %w", dir, uid, os.Geteuid(), ErrUnsafeCache)
	case fi.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("umbrella: others can write to %q (mode %#o); chmod it to 0700: %w", dir, fi.Mode().Perm(), ErrUnsafeCache)
	}
	return nil
}
