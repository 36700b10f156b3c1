//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/gitindex"
)

// A verdict is git's is_git_directory for a directory. It may depend on who runs git: root reads
// what the owner cannot, and a command can change modes.
type verdict uint8

const (
	noGitDir   verdict = iota // git ignores it
	mayBeOne                  // somebody's git uses it as a git directory, or fails there
	takenByAll                // everybody who can read it uses it as one
)

// judge is git's own test: a valid HEAD, and objects and refs in the common directory.
func judge(gitDir, common string) verdict {
	return min(judgePart(gitDir), judgeHead(join(gitDir, "HEAD")), judgePart(join(common, "objects")), judgePart(join(common, "refs")))
}

// judgeHead is git's validate_headref.
func judgeHead(path string) verdict {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return missingVerdict(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return noGitDir
	case unix.S_IFLNK: // an old format, which git accepts without a look
		if target, err := os.Readlink(path); err != nil || strings.HasPrefix(target, "refs/") {
			return mayBeOne
		}
		return noGitDir
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return missingVerdict(err)
	}
	defer f.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return mayBeOne // git would wait for its data
	}
	data, err := io.ReadAll(io.LimitReader(f, gitindex.MaxHead))
	switch {
	case err != nil:
		return mayBeOne
	case !gitindex.ValidHead(data):
		return noGitDir
	case st.Mode&unix.S_IRUSR == 0:
		return mayBeOne
	}
	return takenByAll
}

// judgePart judges a directory, such as objects or refs. Git asks access(2) for X_OK: it also accepts an executable
// file, and ignores a directory that its user cannot search.
func judgePart(path string) verdict {
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); {
	case err != nil:
		return missingVerdict(err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Mode&0o111 == 0:
		return noGitDir
	case st.Mode&unix.S_IFMT != unix.S_IFDIR, st.Mode&unix.S_IXUSR == 0, unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil:
		return mayBeOne
	}
	return takenByAll
}

// missingVerdict is the verdict for a missing part; a user who may not search there does not know.
func missingVerdict(err error) verdict {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return noGitDir
	}
	return mayBeOne
}

// judgeTop judges a directory itself, as git does if it has no valid .git: by its commondir.
func judgeTop(dir string) verdict {
	if !hasCommonDir(dir) {
		return judge(dir, dir)
	}
	if judgeHead(join(dir, "HEAD")) == noGitDir {
		return noGitDir
	}
	common, err := readGitPath(dir, "commondir")
	if err == nil {
		common, err = resolveFrom(dir, common)
	}
	if err != nil {
		return mayBeOne // git fails there
	}
	return judge(dir, common)
}

// hasCommonDir reports whether a git directory has another common directory.
func hasCommonDir(gitDir string) bool {
	return !isGone(join(gitDir, "commondir")) && !namesItself(gitDir)
}

// MayBeBare reports whether somebody's git uses a directory itself as a git directory, if it does
// not accept its .git.
func MayBeBare(dir string) bool { return judgeTop(dir) != noGitDir }

// BesideGitDir returns a warning if a directory with a .git is also a git directory itself: a
// command that makes git ignore the .git leads it to the directory.
func BesideGitDir(top string) string {
	if passedOver(join(top, ".git")) || !MayBeBare(top) {
		return ""
	}
	return fmt.Sprintf("git: %q has a .git, and is a bare repository itself: git uses that when it ignores .git", top)
}

// passedOver reports whether .git is missing, or an empty directory, as a stub is.
func passedOver(dotGit string) bool {
	fi, err := os.Lstat(dotGit)
	if err != nil || !fi.IsDir() {
		return errors.Is(err, fs.ErrNotExist)
	}
	entries, err := os.ReadDir(dotGit)
	return err == nil && len(entries) == 0
}

// isGitDir returns an error for a git directory that not everybody's git accepts. A common
// directory must not have a common directory.
func isGitDir(gitDir, common string) error {
	if judge(gitDir, common) != takenByAll {
		return fmt.Errorf("%q is not a git directory for everybody: it needs a readable HEAD with a ref or a hash, and searchable directories objects and refs: %w", gitDir, ErrGitLayout)
	}
	if gitDir == common && hasCommonDir(common) {
		return fmt.Errorf("%q has a commondir, but is not a worktree's git directory: %w", common, ErrGitLayout)
	}
	return nil
}
