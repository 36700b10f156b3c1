package mountplan

import (
	"io/fs"
	"os"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// kind is the kind of file at a path.
type kind uint8

const (
	absent kind = iota
	directory
	file // neither a directory nor a symlink
	symlink
)

// An entry is the result of lstat for a path.
type entry struct {
	kind   kind
	target string // of a symlink, unchanged
	perm   fs.FileMode
	size   int64
}

// A tree is the host's file system as the planner sees it; tests make their own. An unreadable file
// counts as absent, with the error.
type tree interface {
	lstat(path string) (entry, error)
	names(dir string) []string // nil if nobody can list it
}

// hostTree is the real file system.
type hostTree struct{}

func (hostTree) lstat(p string) (entry, error) {
	info, err := os.Lstat(p)
	return entryOf(p, info, err)
}

func entryOf(p string, info fs.FileInfo, err error) (entry, error) {
	if err != nil {
		// Beneath a file there is nothing.
		if hostpath.Gone(err) {
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

// memo is a tree that reads each path once.
type memo struct {
	tree
	lookups map[string]lookup
	listed  map[string][]string
}

type lookup struct {
	entry
	err error
}

func remember(t tree) memo { return memo{t, make(map[string]lookup, 128), map[string][]string{}} }

func (m memo) names(dir string) []string {
	list, ok := m.listed[dir]
	if !ok {
		list = m.tree.names(dir)
		m.listed[dir] = list
	}
	return list
}

func (m memo) lstat(p string) (entry, error) {
	s, ok := m.lookups[p]
	if !ok {
		s.entry, s.err = m.tree.lstat(p)
		m.lookups[p] = s
	}
	return s.entry, s.err
}

// holds reports whether each path that was read is unchanged, as far as a plan depends on it.
func (m memo) holds() bool {
	for p, was := range m.lookups {
		if now, err := m.tree.lstat(p); err != nil || was.err != nil || now.kind != was.kind || now.target != was.target {
			return false
		}
	}
	return true
}

// resolve follows every symlink of an absolute path. The entry is absent if the path leads nowhere.
func resolve(t tree, p string) (string, entry) {
	end, there, err := paths.Follow("/", p, func(next string, _ bool) (paths.Step, error) {
		e, err := t.lstat(next)
		return paths.Step{Missing: e.kind == absent, Target: e.target}, err
	}, nil)
	if err != nil || !there {
		return end, entry{}
	}
	if end == "/" {
		return end, entry{kind: directory, perm: 0o755}
	}
	e, err := t.lstat(end)
	if err != nil {
		return end, entry{}
	}
	return end, e
}
