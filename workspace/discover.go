//go:build unix

package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// Discover returns the project root for work in dir, an existing directory: the nearest directory
// at or above it with a .git, else dir itself, without symlinks. It runs no git. home is the
// caller's, "" if unknown.
//
// It ignores two kinds of .git above dir: one whose owner is neither the caller, the owner of dir
// nor root, because anybody can put one in a shared directory and so widen the project; and one in
// a directory that New refuses as a root, because a home kept in git is not a project.
func Discover(dir, home string) (string, error) {
	if !filepath.IsAbs(dir) || strings.IndexByte(dir, 0) >= 0 {
		return "", fmt.Errorf("discover: %q is not an absolute path: %w", dir, fs.ErrInvalid)
	}
	start, fi, err := directory(dir)
	if err != nil {
		return "", fmt.Errorf("discover: %w", err)
	}
	if top := gitTop(start, fi.Sys().(*syscall.Stat_t).Uid); top == start || top != "" && refusal(top, home, sameFile) == "" {
		return top, nil
	}
	return start, nil
}

// SpellingOf returns the caller's path of root, as dir spells it through symlinks, and the target of
// that path. Dir lies in root. For the dir "/l/p/sub" in the root "/r/p", where l is a symlink to r, they
// are "/l/p" and "/r/p". If a symlink leads to a directory below the root, they are dir and its target.
// Without symlinks both are the root.
func SpellingOf(dir, root string) (spelled, of string) {
	if paths.Inside(root, dir) {
		return root, root
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil || !paths.Inside(root, resolved) {
		return root, root
	}
	dir = filepath.Clean(dir)
	top, ok := strings.CutSuffix(dir, strings.TrimPrefix(resolved, root))
	if back, err := filepath.EvalSymlinks(top); ok && err == nil && back == root {
		return top, root
	}
	return dir, resolved
}

// Around returns the directories above dir, a resolved path, with a .git that Discover would take for
// work in dir or above it: a git that runs in one may obey files in dir, also if dir is another file system.
func (w *Workspace) Around(dir string) (tops []string) {
	for dir != "/" && dir != "" {
		owners, above := []uint32{w.uid}, filepath.Dir(dir)
		if fi, err := os.Stat(above); err == nil {
			owners = append(owners, fi.Sys().(*syscall.Stat_t).Uid)
		}
		if dir = gitTop(above, owners...); dir != "" {
			tops = append(tops, dir)
		}
	}
	return tops
}

// Outer returns the directories of Around for the project root, up to the first that New refuses as a
// root: those can be workspaces themselves.
func (w *Workspace) Outer() []string {
	tops := w.Around(w.project.Path)
	if i := slices.IndexFunc(tops, func(top string) bool { return refusal(top, w.home, sameFile) != "" }); i >= 0 {
		return tops[:i]
	}
	return tops
}

// gitTop returns the nearest directory at or above the resolved dir with a .git of the owners, the
// caller or root, or "". The owner of a symlink counts too: anybody can lead one to a directory of root.
func gitTop(dir string, owners ...uint32) string {
	owners = append(owners, 0, uint32(os.Geteuid()))
	trusted := func(fi fs.FileInfo, err error) bool {
		return err == nil && slices.Contains(owners, fi.Sys().(*syscall.Stat_t).Uid)
	}
	for dir := range paths.Up(dir) {
		dotGit := paths.Join(dir, ".git")
		fi, err := os.Stat(dotGit)
		if trusted(fi, err) && trusted(os.Lstat(dotGit)) && (fi.IsDir() || fi.Mode().IsRegular()) {
			return dir
		}
	}
	return ""
}
