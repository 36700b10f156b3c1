package bwrap

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// kind is what lies at a path.
type kind uint8

const (
	absent kind = iota
	directory
	file // anything that is neither a directory nor a symlink
	symlink
)

// An entry is what lstat says of a path.
type entry struct {
	kind   kind
	target string // of a symlink, as written
	perm   fs.FileMode
	size   int64
}

// A tree is the host's file system as the planner sees it; tests fabricate
// one. What cannot be looked at is absent, but for the error.
type tree interface {
	lstat(path string) (entry, error)
	names(dir string) []string
}

// hostTree is the real file system.
type hostTree struct{}

func (hostTree) lstat(p string) (entry, error) {
	info, err := os.Lstat(p)
	if err != nil {
		// Beneath a file there is nothing, which is what matters here.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
			return entry{}, nil
		}
		return entry{}, err
	}
	e := entry{kind: file, perm: info.Mode().Perm(), size: info.Size()}
	switch {
	case info.IsDir():
		e.kind = directory
	case info.Mode()&fs.ModeSymlink != 0:
		e.kind = symlink
		if e.target, err = os.Readlink(p); err != nil {
			return entry{}, err
		}
	}
	return e, nil
}

func (hostTree) names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// memo is a tree that looks at each path once. It is for a moment's use.
type memo struct {
	tree
	seen map[string]seen
}

type seen struct {
	entry
	err error
}

func remember(t tree) memo { return memo{t, make(map[string]seen, 128)} }

func (m memo) lstat(p string) (entry, error) {
	s, ok := m.seen[p]
	if !ok {
		s.entry, s.err = m.tree.lstat(p)
		m.seen[p] = s
	}
	return s.entry, s.err
}

// maxLinks is how many symlinks a path may go through, as in Linux.
const maxLinks = 40

// resolve follows every symlink of an absolute path. The entry is absent where
// the path leads nowhere.
func resolve(t tree, p string) (string, entry) {
	cur, rest := "/", split(p)
	last := entry{kind: directory}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			cur = path.Dir(cur)
			last = entry{kind: directory}
			continue
		}
		next := path.Join(cur, name)
		e, err := t.lstat(next)
		if err != nil || e.kind == absent {
			return next, entry{}
		}
		if e.kind == symlink {
			if links++; links > maxLinks {
				return next, entry{}
			}
			if strings.HasPrefix(e.target, "/") {
				cur = "/"
			}
			rest = slices.Concat(split(e.target), rest)
			last = entry{kind: directory}
			continue
		}
		cur, last = next, e
	}
	if cur == "/" {
		last = entry{kind: directory, perm: 0o755}
	}
	return cur, last
}

// split gives the components of a path, ".." kept.
func split(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" || s == "." })
}

// within reports whether p is dir or lies beneath it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// byPath orders clean paths so that a directory precedes what lies beneath it and
// no sibling comes between: as strings, with the slash before every other byte.
func byPath(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
