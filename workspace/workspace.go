//go:build unix

package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// rootPatience bounds how long New waits for one root. A dead network mount blocks stat for good; a
// healthy one answers in milliseconds.
const rootPatience = 5 * time.Second

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
	// LookupEnv reads the caller's environment, which finds git and which git obeys. Nil: empty.
	LookupEnv func(string) (string, bool)
	// Written returns the directory outside of the roots that contains path and that commands can
	// write, or "". A git in such a directory is never run. Nil: there is none.
	Written func(path string) (where string)
}

// Workspace is a set of resolved roots. It is safe for concurrent use and holds no open files. The
// zero value has no roots and contains nothing.
type Workspace struct {
	project  RootDir
	roots    []RootDir
	home     string // resolved if it exists; "" if unknown
	alias    string // resolved TempAlias
	uid, gid uint32

	lookup  func(name string) (string, bool)
	written func(path string) (where string)

	now     func() time.Time
	asking  sync.Mutex         // one git answers all simultaneous questions
	answers map[string]*answer // by question
}

// New resolves and checks the roots. An error names the field, as in "readable[1]: ...".
func New(o Options) (*Workspace, error) {
	w := &Workspace{lookup: o.LookupEnv, written: o.Written, now: time.Now}
	if w.lookup == nil {
		w.lookup = func(string) (string, bool) { return "", false }
	}
	home := o.Home
	if home != "" {
		if !filepath.IsAbs(home) {
			return nil, fmt.Errorf("home: %q is not absolute: %w", home, fs.ErrInvalid)
		}
		home = filepath.Clean(home)
		w.home = resolved(home)
	}

	list := []RootDir{{Field: "root", Declared: o.Root, Writable: true}}
	for i, p := range o.Readable {
		list = append(list, RootDir{Field: fmt.Sprintf("readable[%d]", i), Declared: p})
	}
	for i, p := range o.Writable {
		list = append(list, RootDir{Field: fmt.Sprintf("writable[%d]", i), Declared: p, Writable: true})
	}
	if o.TempAlias != "" {
		list = append(list, RootDir{Field: "temp_alias", Declared: o.TempAlias, Writable: true})
	}
	for _, r := range list {
		err := withTimeout(rootPatience, func() error { return w.declare(&r) })
		if err == nil && r.Field == "root" && o.Dir != "" {
			r.Spelled, r.Of = SpellingOf(o.Dir, r.Path)
		}
		if err == nil && r.Writable {
			// The names before symlinks count too: a home can be a symlink, as with automounted ones.
			if why := cmp.Or(refusal(r.Path, w.home, sameFile), refusal(r.Declared, home, sameFile)); why != "" {
				err = fmt.Errorf("%q: %w: %s; name a project directory below it", r.Path, ErrRefusedRoot, why)
			}
		}
		for _, have := range w.roots { // either answer would surprise somebody
			if err == nil && have.Path == r.Path && have.Writable != r.Writable {
				err = fmt.Errorf("%q is already declared by %s with the other access; remove one: %w", r.Path, have.Field, fs.ErrInvalid)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Field, err)
		}
		w.roots = append(w.roots, r)
		w.project = w.roots[0]
		if r.Field == "temp_alias" {
			w.alias = r.Path
		}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(w.project.Path, &st); err != nil {
		return nil, fmt.Errorf("root: %w", &fs.PathError{Op: "stat", Path: w.project.Path, Err: err})
	}
	w.uid, w.gid = st.Uid, st.Gid
	return w, nil
}

// withTimeout runs f, and returns an error after d. Nothing can interrupt a stat of a dead network mount,
// so f's goroutine stays until the mount answers.
func withTimeout(d time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		return fmt.Errorf("no answer in %v; is it on a dead network mount?: %w", d, os.ErrDeadlineExceeded)
	}
}

// declare resolves a declared root.
func (w *Workspace) declare(r *RootDir) error {
	mustBeDir := r.Field == "root" || r.Field == "temp_alias"
	p, err := w.absolute(r.Declared)
	if err != nil {
		return err
	}
	if mustBeDir && p != r.Declared && r.Declared[0] != '~' {
		return fmt.Errorf("%q is not absolute: %w", r.Declared, fs.ErrInvalid)
	}
	r.Declared = filepath.Clean(p)
	var fi fs.FileInfo
	switch r.Path, fi, err = directory(p); {
	case r.Field == "temp_alias" && errors.Is(err, fs.ErrNotExist):
		// Resolve the existing part now. The host makes the rest later, in a directory of its own.
		r.Path, _, err = hostpath.Follow("/", p, func(string) {}, nil)
	case !mustBeDir && fi != nil && fi.Mode().IsRegular():
		return nil
	case !mustBeDir && fi != nil && !fi.IsDir():
		return fmt.Errorf("%q is neither a directory nor a file: %w", r.Path, hostpath.ErrIrregular)
	}
	return err
}

// Moved reports whether a symlink on the way to a declared root now leads elsewhere.
func (w *Workspace) Moved() bool {
	return slices.ContainsFunc(w.roots, func(r RootDir) bool {
		path, err := filepath.EvalSymlinks(cmp.Or(r.Spelled, r.Declared))
		return r.Field != "temp_alias" && (err != nil || path != cmp.Or(r.Of, r.Path))
	})
}

// Root returns the resolved project root.
func (w *Workspace) Root() string { return w.project.Path }

// TempAlias returns the resolved host directory that is /tmp inside, or "".
func (w *Workspace) TempAlias() string { return w.alias }

// Roots returns every root, the project root first.
func (w *Workspace) Roots() []RootDir { return slices.Clone(w.roots) }

// Owner returns the owner of the project root at the time of New, so that a caller that is root can
// run commands as that user.
func (w *Workspace) Owner() (uid, gid uint32) { return w.uid, w.gid }
