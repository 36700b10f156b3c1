// Package paths compares slash-separated paths, follows them, and checks names. Only this package
// decides whether a path is inside another, and how to follow symlinks: two different answers would
// be a way out of a sandbox.
//
// All paths are absolute and in their shortest form, as from path.Clean, unless a function says
// otherwise. The package looks at no file system.
package paths

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strings"
)

// Inside reports whether p is dir or beneath it, by components: /a/b-evil is not in /a/b.
func Inside(dir, p string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// InsideAny reports whether p is one of dirs or beneath one.
func InsideAny(dirs []string, p string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return Inside(dir, p) })
}

// ProcessSpecific reports whether text names a path that differs between processes.
func ProcessSpecific(text string) bool {
	return slices.ContainsFunc([]string{"/proc/self", "/proc/thread-self", "/dev/fd", "/dev/std"}, func(path string) bool { return strings.Contains(text, path) })
}

// Move returns the path of p, which is in from, after from has moved to to.
func Move(p, from, to string) string {
	switch {
	case from == to:
		return p
	case p == from:
		return to
	case from != "/":
		p = strings.TrimPrefix(p, from)
	}
	if to == "/" {
		return p
	}
	return to + p
}

// Up yields p and each directory above it, the deepest first. So a caller can search a map by path
// at a cost that does not grow with the map. It also ends if p is not an absolute path.
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

// Compare orders paths so that a directory precedes the paths beneath it, and nothing else is
// between: as strings, with the slash before every other byte.
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

// Outermost returns those of some paths that are in none of the others, sorted.
func Outermost(list []string) (outer []string) {
	for _, p := range slices.SortedFunc(slices.Values(list), Compare) {
		if n := len(outer); n == 0 || !Inside(outer[n-1], p) {
			outer = append(outer, p)
		}
	}
	return outer
}

// Join appends a name to a path. It does not clean the path: ".." after a symlink is not lexical.
func Join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
