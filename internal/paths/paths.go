// Package paths says how slash-separated paths lie to one another, where one
// leads, and what can be a name. Whether a path lies inside another, and how symlinks are followed, is
// decided here and nowhere else: two answers to that question are a way out of a
// sandbox.
//
// All paths are absolute and in their shortest form, as path.Clean gives them,
// unless something else is said. The package looks at no file system.
package paths

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strings"
)

// Inside reports whether p is dir or lies beneath it, by components: /a/b-evil
// does not lie in /a/b.
func Inside(dir, p string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// InsideAny reports whether p is one of dirs or lies beneath one.
func InsideAny(dirs []string, p string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return Inside(dir, p) })
}

// Move gives the path that p, which lies in from, has where from is to.
func Move(p, from, to string) string {
	if p == from {
		return to
	} else if from != "/" {
		p = strings.TrimPrefix(p, from)
	}
	if to == "/" {
		return p
	}
	return to + p
}

// Up gives p and each directory above it, the deepest first. What lies in a map by
// path is found with it at a cost that does not grow with the map. Of what is no absolute path
// it has an end, too.
func Up(p string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(p) || p == "/" || p == "." {
			return
		}
		for p = path.Dir(p); yield(p) && p != "/" && p != "."; {
			// It is clean now. To clean it for each directory would cost the square of its length.
			switch i := strings.LastIndexByte(p, '/'); i {
			case -1:
				p = "."
			case 0:
				p = "/"
			default:
				p = p[:i]
			}
		}
	}
}

// Compare orders paths so that a directory precedes what lies beneath it and
// nothing else comes between: as strings, with the slash before every other byte.
func Compare(a, b string) int {
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

// Outermost gives those of a sorted list that lie in none of the others.
func Outermost(sorted []string) (outer []string) {
	for _, p := range sorted {
		if n := len(outer); n == 0 || !Inside(outer[n-1], p) {
			outer = append(outer, p)
		}
	}
	return outer
}
