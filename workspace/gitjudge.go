//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/gitindex"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// validHead is git's validate_headref, but refuses a symlink.
func validHead(path string) bool {
	st, _ := hostpath.Lstat(path)
	data, err := hostpath.ReadNoSymlinks(path, maxGitPointer)
	return st.Mode&0o400 != 0 && err == nil && gitindex.ValidHead(data)
}

func searchable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir() && fi.Mode()&0o100 != 0 && unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}

// hasCommonDir reports whether a git directory has another common directory.
func hasCommonDir(gitDir string) bool {
	data, err := hostpath.ReadNoSymlinks(paths.Join(gitDir, "commondir"), maxGitPointer)
	return string(data) != SelfCommonDir && !errors.Is(err, fs.ErrNotExist)
}

// MayBeBare reports whether somebody's git may use a directory itself as a git directory, if it does
// not accept the .git in it. Objects and refs of any type count: a command can change the type.
func MayBeBare(dir string) bool {
	st, err := hostpath.Lstat(paths.Join(dir, "HEAD"))
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || err == unix.ENOENT {
		return false
	}
	return hasCommonDir(dir) || !isGone(paths.Join(dir, "objects")) && !isGone(paths.Join(dir, "refs"))
}

// BareWithDotGit returns a warning if a directory with a .git is also a git directory itself: a
// command that makes git ignore the .git leads git to the directory.
func BareWithDotGit(top string) string {
	if !MayBeBare(top) || HasOnly(paths.Join(top, ".git"), "") {
		return ""
	}
	return fmt.Sprintf("git: the directory %q has a .git, and is a bare repository itself: git uses that when it ignores .git", top)
}

// HasOnly reports whether a path is missing, or a directory with nothing in it, or only that name, as a
// stub is. It follows no symlink, and reads no more names than it needs: there can be millions.
func HasOnly(p, name string) bool {
	fd, err := hostpath.OpenNoSymlinks(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer unix.Close(fd)
	entries, err := hostpath.Entries(nil, fd, 1)
	return err == nil && (len(entries) == 0 || len(entries) == 1 && entries[0].Name == name)
}

// isGitDir returns an error unless everybody's git accepts a git directory: it must have a valid HEAD,
// and in the common directory objects and refs, which the owner too can search. A common directory must
// not have another common directory.
func isGitDir(gitDir, common string) error {
	if gitDir == common && searchable(gitDir) && hasCommonDir(common) {
		return fmt.Errorf("%q has a commondir, but is not a worktree's git directory: most of the repository is elsewhere, or gone: %w", common, ErrGitLayout)
	}
	if !searchable(gitDir) || !validHead(paths.Join(gitDir, "HEAD")) || !searchable(paths.Join(common, "objects")) || !searchable(paths.Join(common, "refs")) {
		return fmt.Errorf("%q is not a git directory for everybody: it needs a readable HEAD with a ref or a hash, and searchable directories objects and refs: %w", gitDir, ErrGitLayout)
	}
	return nil
}
