package workspace

import "strings"

// inside reports whether the cleaned absolute path p is root or lies below it,
// component by component: /a/b-evil is not inside /a/b.
func inside(root, p string) bool {
	if p == root || root == "/" {
		return true
	}
	return len(p) > len(root) && p[len(root)] == '/' && strings.HasPrefix(p, root)
}

// strictlyInside is inside, without the root itself.
func strictlyInside(root, p string) bool { return p != root && inside(root, p) }

// root is one declared root.
type root struct {
	field    string // where it was declared: root, readable[1], temp_alias
	raw      string // absolute and clean, symlinks as the caller spelled them
	path     string // resolved
	writable bool
}

// innermost returns the root that p lies in. Of nested roots the deepest
// decides, as the deepest of nested mounts does.
func innermost(roots []root, p string) (root, bool) {
	best := -1
	for i, r := range roots {
		if inside(r.path, p) && (best < 0 || len(r.path) > len(roots[best].path)) {
			best = i
		}
	}
	if best < 0 {
		return root{}, false
	}
	return roots[best], true
}
