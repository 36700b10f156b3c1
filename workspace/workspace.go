//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// preflight bounds how long New waits for one root. A dead network mount blocks stat for minutes; a
// healthy one answers in milliseconds.
const preflight = 5 * time.Second

// Options declare a workspace. The zero value of every field except Root is the stricter choice.
type Options struct {
	// Root is the project root: a directory, read-write, and the base of relative paths. Required.
	Root string
	// Dir is the caller's directory in Root, perhaps through symlinks, for RootDir.Spelled. Empty:
	// unknown.
	Dir string
	// Readable are further read-only roots, directories or files. They may be system directories.
	Readable []string
	// Writable are further read-write roots. New refuses the same directories as for Root.
	Writable []string
	// Home is the caller's home, which replaces "~" in paths, and which New refuses as a root.
	// Empty: unknown.
	Home string
	// TempAlias is the absolute host directory that is /tmp inside a sandbox. It is a read-write
	// root, and the path /tmp/x means x in it. It may not exist yet, so that a session's scratch
	// directory can be made on first use. Empty: /tmp is the host's, and outside, unless another
	// root contains it.
	TempAlias string
	// DenySensitive refuses files named .env or .env.*.
	DenySensitive bool
	// LookupEnv reads the caller's environment, which finds git and which git obeys. Nil: empty.
	LookupEnv func(string) (string, bool)
	// Written returns the directory outside of the roots that contains path and that commands can
	// write, or "". A git in such a directory is never run. Nil: there is none.
	Written func(path string) (where string)
}

// Workspace is a set of resolved roots. It is safe for concurrent use and holds no open files. The
// zero value has no roots and contains nothing.
type Workspace struct {
	project  root
	roots    []root
	home     string // resolved if it exists; "" if unknown
	alias    string // resolved TempAlias
	deny     bool
	uid, gid uint32

	lookupEnv func(string) (string, bool)
	written   func(string) string
	answers   gitAnswers
}

// root is one declared root.
type root struct {
	field    string // its declaration: root, readable[1], temp_alias
	raw      string // absolute and clean, with the caller's symlinks
	path     string // resolved
	writable bool

	spelled, of string // as in RootDir
}

// innermost returns the root that contains p. Of nested roots the deepest decides, like nested
// mounts.
func innermost(roots []root, p string) (root, bool) {
	best := -1
	for i, r := range roots {
		if paths.Inside(r.path, p) && (best < 0 || len(r.path) > len(roots[best].path)) {
			best = i
		}
	}
	if best < 0 {
		return root{}, false
	}
	return roots[best], true
}

// New resolves and checks the roots. An error names the field, as in "readable[1]: ...".
func New(o Options) (*Workspace, error) {
	w := &Workspace{
		deny:      o.DenySensitive,
		lookupEnv: o.LookupEnv,
		written:   o.Written,
	}
	home := o.Home
	if home != "" {
		if !filepath.IsAbs(home) {
			return nil, fmt.Errorf("home: %q is not absolute: %w", home, ErrInvalidPath)
		}
		home = filepath.Clean(home)
	}
	err := withTimeout("home", preflight, func() error {
		w.home = home
		if home != "" {
			if r, err := filepath.EvalSymlinks(home); err == nil {
				w.home = r
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	list := []root{{field: "root", raw: o.Root, writable: true}}
	for i, p := range o.Readable {
		list = append(list, root{field: fmt.Sprintf("readable[%d]", i), raw: p})
	}
	for i, p := range o.Writable {
		list = append(list, root{field: fmt.Sprintf("writable[%d]", i), raw: p, writable: true})
	}
	if o.TempAlias != "" {
		list = append(list, root{field: "temp_alias", raw: o.TempAlias, writable: true})
	}
	for _, r := range list {
		err := withTimeout(r.field, preflight, func() error {
			if err := w.declare(&r); err != nil {
				return fmt.Errorf("%s: %w", r.field, err)
			}
			if r.field == "root" && o.Dir != "" {
				r.spelled, r.of = SpellingOf(o.Dir, r.path)
			}
			if r.writable {
				return refuseRoot(r.field, r.raw, r.path, home, w.home)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if err := w.add(r); err != nil {
			return nil, err
		}
		switch r.field {
		case "root":
			w.project = r
		case "temp_alias":
			w.alias = r.path
		}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(w.project.path, &st); err != nil {
		return nil, fmt.Errorf("root: %w", &fs.PathError{Op: "stat", Path: w.project.path, Err: err})
	}
	w.uid, w.gid = st.Uid, st.Gid
	return w, nil
}

// declare resolves a declared root.
func (w *Workspace) declare(r *root) error {
	p, mustBeDir := r.raw, r.field == "root" || r.field == "temp_alias"
	if err := checkSpelling(p); err != nil {
		return err
	}
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		if w.home == "" {
			return fmt.Errorf("%q: no home directory is known; set home: %w", p, ErrInvalidPath)
		}
		p = filepath.Join(w.home, p[1:])
	case filepath.IsAbs(p):
	case mustBeDir:
		return fmt.Errorf("%q is not absolute: %w", p, ErrInvalidPath)
	default:
		p = filepath.Join(w.project.path, p)
	}
	r.raw = filepath.Clean(p)
	resolved, err := filepath.EvalSymlinks(p)
	if r.field == "temp_alias" && errors.Is(err, fs.ErrNotExist) {
		// It does not exist yet. Resolve the existing part now; we will make the rest, in a
		// directory that is ours alone.
		got, err := (&Workspace{}).walk("/", p)
		r.path = got.path
		return err
	}
	if err != nil {
		return err
	}
	r.path = resolved
	fi, err := os.Stat(resolved)
	switch {
	case err != nil:
		return err
	case mustBeDir && !fi.IsDir():
		return &fs.PathError{Op: "open", Path: resolved, Err: syscall.ENOTDIR}
	case !fi.IsDir() && !fi.Mode().IsRegular():
		return fmt.Errorf("%q: %w", resolved, ErrNotRegular)
	}
	return nil
}

// add appends a root. A directory may be declared twice, but not as both read-only and writable:
// either answer would surprise somebody.
func (w *Workspace) add(r root) error {
	for _, have := range w.roots {
		if have.path == r.path && have.writable != r.writable {
			return fmt.Errorf("%s: %q is already declared by %s with the other access; remove one: %w", r.field, r.path, have.field, ErrRootConflict)
		}
	}
	w.roots = append(w.roots, r)
	return nil
}

// withTimeout runs f, and gives up after d. Nothing can interrupt a stat of a dead network mount,
// so its goroutine stays until it answers.
func withTimeout(field string, d time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		return fmt.Errorf("%s: no answer in %v; is it on a dead network mount?: %w", field, d, ErrUnresponsive)
	}
}

// Root returns the resolved project root.
func (w *Workspace) Root() string { return w.project.path }

// TempAlias returns the resolved host directory that is /tmp inside, or "".
func (w *Workspace) TempAlias() string { return w.alias }

// Roots returns every root, the project root first.
func (w *Workspace) Roots() []RootDir {
	list := make([]RootDir, len(w.roots))
	for i, r := range w.roots {
		list[i] = RootDir{Field: r.field, Declared: r.raw, Path: r.path, Writable: r.writable, Spelled: r.spelled, Of: r.of}
	}
	return list
}

// Owner returns the owner of the project root at the time of New, so that a caller that is root can
// run commands as that user.
func (w *Workspace) Owner() (uid, gid uint32) { return w.uid, w.gid }

// Repository returns the current top level of the git repository around the project root, or "". It
// may be above the root. It runs no git.
func (w *Workspace) Repository() string { return gitTop(w.project.path, w.uid) }
