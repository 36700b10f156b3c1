//go:build unix

package sessiondir

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

var errBase = errors.New("not an absolute path")

// UserBase returns the directory that holds the user's session directories:
// $XDG_CACHE_HOME/sbxhost/sessions, else ~/.cache/sbxhost/sessions, on macOS
// ~/Library/Caches/sbxhost/sessions. A relative XDG_CACHE_HOME is ignored, as
// its specification demands. lookup reads the environment.
//
// It is not in /tmp, where the names are anybody's to take.
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

// SystemBase returns the directory, root's own, that holds a directory
// by the number of each user for whose commands root has made session directories. It is
// neither in root's home, which such a user cannot pass through, nor in the
// user's, where the user could lead root astray by symlinks.
func SystemBase() string { return systemBase(runtime.GOOS) }

func systemBase(goos string) string {
	if goos == "darwin" {
		return "/Library/Caches/sbxhost"
	}
	return "/var/cache/sbxhost"
}

// MakeBase makes the directory base, which is to hold session directories, and checks
// that it is this process's user's alone to write. A program that shows part of
// the host to commands calls it so that it can hide what there is not yet.
func MakeBase(base string) error {
	base, err := resolveBase(base)
	if err != nil {
		return err
	}
	return private(hostpath.MakePrivate(base, 0o700))
}

// checkPrivate refuses a directory that is a symlink, another user's, or writable
// by others.
func checkPrivate(dir string) error { return private(hostpath.CheckPrivate(dir)) }

// private says what to do about an error of hostpath's.
func private(err error) error {
	switch {
	case errors.Is(err, hostpath.ErrNotPrivate):
		return fmt.Errorf("session directory: %w; set XDG_CACHE_HOME to a directory of your own", err)
	case err != nil:
		return fmt.Errorf("session directory: %w", err)
	}
	return nil
}
