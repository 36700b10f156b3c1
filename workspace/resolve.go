//go:build unix

package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// ResolveDir returns the resolved path of an existing directory in a root, to be a working
// directory. dir may be relative to the project root, or begin with "~/", or with /tmp/ if there is
// a TempAlias; a root below /tmp wins over the alias. An empty dir is the project root.
func (w *Workspace) ResolveDir(dir string) (string, error) {
	if dir == "" {
		return w.project.Path, nil
	}
	p, err := w.absolute(dir)
	if err != nil {
		return "", err
	}
	resolved, _, err := directory(w.aliased(p))
	switch {
	case resolved != "" && !slices.ContainsFunc(w.roots, func(r RootDir) bool { return paths.Inside(r.Path, resolved) }):
		return "", fmt.Errorf("%q is %w. Add it to workspace.readable or workspace.writable", resolved, ErrOutside)
	case err != nil:
		return "", err
	}
	return resolved, nil
}

// directory resolves the path of an existing directory. With an error, resolved is that of anything else.
func directory(p string) (resolved string, fi fs.FileInfo, err error) {
	if resolved, err = filepath.EvalSymlinks(p); err == nil {
		fi, err = os.Lstat(resolved)
	}
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "chdir", Path: resolved, Err: syscall.ENOTDIR}
	}
	return resolved, fi, err
}

// absolute makes a path absolute, without other changes.
func (w *Workspace) absolute(p string) (string, error) {
	switch {
	case p == "" || strings.IndexByte(p, 0) >= 0:
		return "", fmt.Errorf("path %.80q is empty or holds a NUL byte: %w", p, fs.ErrInvalid)
	case p != "~" && !strings.HasPrefix(p, "~/"):
		return absoluteIn(w.project.Path, p), nil
	case w.home == "":
		return "", fmt.Errorf("path %q: no home directory is known; set home: %w", p, fs.ErrInvalid)
	}
	return w.home + p[1:], nil
}

// aliased returns the host's path for an absolute path inside the sandbox.
func (w *Workspace) aliased(p string) string {
	clean, tmp := filepath.Clean(p), "/tmp"
	if runtime.GOOS == "darwin" && paths.Inside("/private/tmp", clean) {
		tmp = "/private/tmp"
	}
	ofRoot := func(r RootDir) bool {
		return slices.ContainsFunc([]string{r.Declared, r.Path}, func(root string) bool { return root != tmp && paths.Inside(tmp, root) && paths.Inside(root, clean) })
	}
	if w.alias == "" || !paths.Inside(tmp, clean) || slices.ContainsFunc(w.roots, ofRoot) {
		return p
	}
	return w.alias + strings.TrimPrefix(clean, tmp)
}
