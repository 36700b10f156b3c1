//go:build unix

package sessiondir

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

var errBase = errors.New("not an absolute path")

// UserBase returns the directory of the user's session directories:
// $XDG_CACHE_HOME/sbxhost/sessions, else ~/.cache/sbxhost/sessions, on macOS
// ~/Library/Caches/sbxhost/sessions. It ignores a relative XDG_CACHE_HOME, as its specification
// demands. lookup reads the environment.
//
// It is not in /tmp, where anybody can take the names.
func UserBase(lookup func(string) (string, bool)) (string, error) {
	return userBase(runtime.GOOS, lookup)
}

func userBase(goos string, lookup func(string) (string, bool)) (string, error) {
	cache, _ := lookup("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		home, _ := lookup("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("sessions: neither XDG_CACHE_HOME nor HOME is an absolute path; set one")
		}
		if goos == "darwin" {
			cache = filepath.Join(home, "Library", "Caches")
		} else {
			cache = filepath.Join(home, ".cache")
		}
	}
	return filepath.Join(cache, "sbxhost", "sessions"), nil
}

// SystemBase returns root's directory that has, by user number, the directories in which root has
// made sessions for a user's commands. It is neither in root's home, which such a user cannot
// enter, nor in the user's, where the user could lead root astray with symlinks.
func SystemBase() string {
	if runtime.GOOS == "darwin" {
		return "/Library/Caches/sbxhost"
	}
	return "/var/cache/sbxhost"
}

// MakeBase makes the directory base of ResolveBase for session directories, and checks that only this
// process's user can write to it. A program that shows part of the host to commands calls it to be
// able to hide it.
func MakeBase(base string) error { return private(hostpath.MakePrivate(base, 0o700)) }

// checkPrivate refuses a directory that is a symlink, another user's, or writable by others.
func checkPrivate(dir string) error { return private(hostpath.CheckPrivate(dir)) }

// private adds to an error of hostpath what to do.
func private(err error) error {
	switch {
	case errors.Is(err, hostpath.ErrNotPrivate):
		return fmt.Errorf("session directory: %w; set XDG_CACHE_HOME to a directory of your own", err)
	case err != nil:
		return fmt.Errorf("session directory: %w", err)
	}
	return nil
}

// ResolveBase resolves the directory of base, such as a ~/.cache that is a link to another disk: mounts
// of a session directory are opened without following links. It refuses a link of another user's and,
// as [hostpath.Resolve] does, one in the directories of writable.
func ResolveBase(base string, writable func() []string) (string, error) {
	if !filepath.IsAbs(base) || strings.ContainsRune(base, 0) {
		return "", fmt.Errorf("base: %q: %w", base, errBase)
	}
	base = filepath.Clean(base)
	dir, err := hostpath.Resolve("/", filepath.Dir(base), writable)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(base)), nil
}
