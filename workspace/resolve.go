//go:build unix

package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ResolveForRead returns the absolute path without symlinks that path leads to, in one of the
// roots. path may be relative to the project root, or begin with "~/", or with /tmp/ if there is a
// TempAlias; a root below /tmp wins over the alias. "~name" is an ordinary file name. A path that
// does not exist yet resolves too, through symlinks that do.
//
// The result is true only at the moment of the call; see Open.
//
// Errors wrap ErrOutside, ErrSensitive, ErrInvalidPath, ErrNameTooLong or ErrLoop, or come from the
// file system (a parent is a file, or cannot be searched).
func (w *Workspace) ResolveForRead(path string) (string, error) {
	got, err := w.resolve(path, false)
	return got.path, err
}

// ResolveForWrite is ResolveForRead for a path to write or create. It also refuses, with
// ErrReadOnlyRoot, a path in a read-only root.
func (w *Workspace) ResolveForWrite(path string) (string, error) {
	got, err := w.resolve(path, true)
	return got.path, err
}

// ResolveDir returns the resolved path of an existing directory in a root, to be a working
// directory. An empty dir is the project root. Errors are those of ResolveForRead, and wrap
// fs.ErrNotExist or syscall.ENOTDIR for a path that is not a directory.
func (w *Workspace) ResolveDir(dir string) (string, error) {
	if dir == "" {
		return w.project.Path, nil
	}
	got, err := w.follow(dir)
	if err != nil {
		return "", err
	}
	if _, err := w.contained(dir, got.path); err != nil {
		return "", err
	}
	fi, err := os.Lstat(got.path)
	if err != nil {
		return "", err
	}
	if !fi.IsDir() {
		return "", &fs.PathError{Op: "chdir", Path: got.path, Err: syscall.ENOTDIR}
	}
	return got.path, nil
}

func (w *Workspace) resolve(path string, write bool) (walked, error) {
	got, err := w.follow(path)
	if err != nil {
		return walked{}, err
	}
	r, err := w.contained(path, got.path)
	if err != nil {
		return walked{}, err
	}
	if write && !r.Writable {
		return walked{}, fmt.Errorf("path %q: %q is %w (%s, %q); write elsewhere or declare it writable", path, got.path, ErrReadOnlyRoot, r.Field, r.Path)
	}
	if w.deny {
		// A link's name counts like its target's: rules for files use names, and ".env -> secrets"
		// is as secret as "notes -> .env".
		for _, name := range got.finals {
			if Sensitive(name) {
				return walked{}, fmt.Errorf("path %q: %w: %q is refused in this mode", path, ErrSensitive, name)
			}
		}
	}
	return got, nil
}

// follow finds where path leads, inside or outside of the roots.
func (w *Workspace) follow(path string) (walked, error) {
	if err := checkSpelling(path); err != nil {
		return walked{}, err
	}
	if w.project.Path == "" {
		return walked{}, fmt.Errorf("path %q: workspace has no root: %w", path, ErrOutside)
	}
	start, rest := w.project.Path, path
	if path == "~" || strings.HasPrefix(path, "~/") {
		if w.home == "" {
			return walked{}, fmt.Errorf("path %q: no home directory is known; set home: %w", path, ErrInvalidPath)
		}
		// "." keeps "~//etc" from becoming an absolute path.
		start, rest = w.home, "."+path[1:]
	}
	return w.walk(start, rest)
}

// contained returns the root that contains resolved.
func (w *Workspace) contained(path, resolved string) (*RootDir, error) {
	r := innermost(w.roots, resolved)
	if r == nil {
		leads := "is"
		if resolved != path {
			leads = fmt.Sprintf("resolves to %q, which is", resolved)
		}
		return r, fmt.Errorf("path %q %s %w; use a path below %q, or add a root (workspace.readable, workspace.writable)", path, leads, ErrOutside, w.project.Path)
	}
	return r, nil
}
