//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/gitindex"
)

// judgeHead is git's validate_headref, without a HEAD that is a symlink.
func judgeHead(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode()&0o400 == 0 {
		return false
	}
	data, err := readSmall(path, maxGitPointer)
	return err == nil && gitindex.ValidHead(data)
}

func judgePart(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir() && fi.Mode()&0o100 != 0 && unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}

// hasCommonDir reports whether a git directory has another common directory.
func hasCommonDir(gitDir string) bool {
	return !isGone(join(gitDir, "commondir")) && !namesItself(gitDir)
}

// MayBeBare reports whether somebody's git may use a directory itself as a git directory, if it does
// not accept its .git: whatever HEAD, objects and refs are, a command can change that.
func MayBeBare(dir string) bool {
	fi, err := os.Lstat(join(dir, "HEAD"))
	if err == nil && fi.IsDir() || errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return hasCommonDir(dir) || !isGone(join(dir, "objects")) && !isGone(join(dir, "refs"))
}

// BesideGitDir returns a warning if a directory with a .git is also a git directory itself: a
// command that makes git ignore the .git leads it to the directory.
func BesideGitDir(top string) string {
	if passedOver(join(top, ".git")) || !MayBeBare(top) {
		return ""
	}
	return fmt.Sprintf("git: the directory %q has a .git, and is a bare repository itself: git uses that when it ignores .git", top)
}

// passedOver reports whether .git is missing, or an empty directory, as a stub is.
func passedOver(dotGit string) bool {
	fi, err := os.Lstat(dotGit)
	if err != nil || !fi.IsDir() {
		return errors.Is(err, fs.ErrNotExist)
	}
	entries, err := readDir(dotGit, unix.O_NOFOLLOW, 1) // there can be millions
	return err == nil && len(entries) == 0
}

// isGitDir returns an error for a git directory that not everybody's git accepts: it has a valid HEAD,
// and objects and refs in the common directory, which its owner too can read and search. A common
// directory must not have a common directory.
func isGitDir(gitDir, common string) error {
	if !judgePart(gitDir) || !judgeHead(join(gitDir, "HEAD")) || !judgePart(join(common, "objects")) || !judgePart(join(common, "refs")) {
		return fmt.Errorf("%q is not a git directory for everybody: it needs a readable HEAD with a ref or a hash, and searchable directories objects and refs: %w", gitDir, ErrGitLayout)
	}
	if gitDir == common && hasCommonDir(common) {
		return fmt.Errorf("%q has a commondir, but is not a worktree's git directory: %w", common, ErrGitLayout)
	}
	return nil
}
