package workspace

import "github.com/sbxhost/sbxhost/paths"

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
		if paths.Inside(r.path, p) && (best < 0 || len(r.path) > len(roots[best].path)) {
			best = i
		}
	}
	if best < 0 {
		return root{}, false
	}
	return roots[best], true
}
