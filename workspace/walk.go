//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/paths"
)

const (
	maxName = 255  // NAME_MAX
	maxPath = 4095 // PATH_MAX without its NUL
)

// walked is where a path leads.
type walked struct {
	path   string   // absolute, clean, no symlinks
	finals []string // last names: of the path and of the links at its end
}

// checkSpelling refuses a path that is never valid.
func checkSpelling(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("path is empty: %w", ErrInvalidPath)
	case strings.IndexByte(p, 0) >= 0:
		return fmt.Errorf("path %.80q holds a NUL byte: %w", p, ErrInvalidPath)
	case len(p) > maxPath:
		return fmt.Errorf("path %.80q... has %d bytes, more than %d: %w", p, len(p), maxPath, ErrNameTooLong)
	}
	return nil
}

// walk resolves path from start as the kernel would, one component at a time, except that
// components may be missing. start is resolved. An absolute path begins at /, where /tmp may be the
// alias.
//
// filepath.EvalSymlinks cannot replace it: it fails at the first missing component. If the caller
// then resolves the parent and adds the rest, a dangling symlink passes for a new file.
//
// It is one loop: every step changes the state of all others.
func (w *Workspace) walk(start, path string) (walked, error) {
	cur := start
	rest := strings.Split(path, "/")
	if path[0] == '/' {
		cur = "/"
	}
	var out walked
	links := 0
	aliased := false // cur was reached through /tmp
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch {
		case name == "" || name == ".":
			continue
		case name == ".." && aliased && cur == w.alias:
			// Inside, the parent of /tmp is /, not the parent of the scratch directory.
			cur, aliased = "/", false
			continue
		case name == "..":
			cur = filepath.Dir(cur)
			continue
		case len(name) > maxName:
			return out, fmt.Errorf("name %.80q... has %d bytes, more than %d: %w", name, len(name), maxName, ErrNameTooLong)
		}
		if final(rest) {
			out.finals = append(out.finals, name)
		}
		if w.entersAlias(cur, name, rest) {
			cur, aliased = w.alias, true
			continue
		}
		next := join(cur, name)
		if len(next) > maxPath {
			return out, fmt.Errorf("path %.80q... leads to %d bytes, more than %d: %w", path, len(next), maxPath, ErrNameTooLong)
		}
		target, err := readLink(next)
		if err != nil {
			return out, err
		}
		if target == "" {
			cur = next
			continue
		}
		if links++; links > paths.MaxLinks {
			return out, fmt.Errorf("path %q: %w: %w", path, ErrLoop, syscall.ELOOP)
		}
		if target[0] == '/' {
			cur, aliased = "/", false
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	out.path = cur
	out.finals = append(out.finals, filepath.Base(cur))
	return out, nil
}

// readLink returns the target of a symlink, and "" for anything else. After a missing component
// there are no others, up to a "..".
func readLink(path string) (target string, err error) {
	target, err = os.Readlink(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EINVAL):
		return "", nil
	case err == nil && target == "":
		err = fmt.Errorf("symlink %q is empty: %w", path, ErrInvalidPath)
	}
	return target, err
}

// entersAlias reports whether the step from cur to name enters /tmp, and /tmp is the alias for the
// rest. A root below the host's /tmp keeps its own paths, in either spelling.
func (w *Workspace) entersAlias(cur, name string, rest []string) bool {
	if w.alias == "" || name != "tmp" {
		return false
	}
	if cur != "/" && !(runtime.GOOS == "darwin" && cur == "/private") {
		return false
	}
	host := join(cur, name)
	p := filepath.Join(append([]string{host}, rest...)...)
	for _, r := range w.roots {
		for _, spelling := range []string{r.Declared, r.Path} {
			if spelling != host && paths.Inside(host, spelling) && paths.Inside(spelling, p) {
				return false
			}
		}
	}
	return true
}

// final reports whether no name follows.
func final(rest []string) bool {
	for _, name := range rest {
		if name != "" && name != "." {
			return false
		}
	}
	return true
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
