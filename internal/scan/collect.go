//go:build unix

package scan

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// A file is a regular file under all its names.
type file struct{ dev, inode uint64 }

// lstat returns the file at a path and the number of its names: 0 if it is gone.
func lstat(path string) (id file, names uint64) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return id, 0
	}
	return file{uint64(st.Dev), st.Ino}, uint64(st.Nlink)
}

// hidden is one name of a hidden file.
type hidden struct {
	path    string
	pattern int
}

// collect makes a Result from the remembered directories.
func (w *walk) collect(root *node, roots []string) *Result {
	c := &collection{walk: w, roots: roots, files: map[file]hidden{}, single: map[string]file{}, out: &Result{}}
	for _, n := range root.dirs {
		c.root(n)
		c.gather(n, n.name)
	}
	if c.linked() {
		c.known = make(map[string]bool, len(c.direct))
		for _, path := range c.direct {
			c.known[path] = true
		}
		for _, n := range root.dirs {
			c.links(n, n.name)
		}
		for path, id := range c.single {
			if h, ok := c.files[id]; ok {
				c.linkTo(h, path)
			}
		}
		c.checkInodes()
	}
	c.out.order()
	return c.out
}

type collection struct {
	*walk
	roots  []string
	files  map[file]hidden // the hidden files
	direct []string        // names of files that match a pattern
	known  map[string]bool // direct, as a set; nil before links
	single map[string]file // roots that are files and match no pattern
	out    *Result
}

// root reports a root that matches. It can be a file.
func (c *collection) root(n *node) {
	var st unix.Stat_t
	if unix.Lstat(n.name, &st) != nil {
		return
	}
	f := Found{Path: n.name, Reason: Matched, Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, Pattern: n.hide - 1}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		f.inode = st.Ino
	}
	if !f.Dir {
		dir, base := filepath.Split(n.name)
		state, hide := c.query.Set.At(dir)
		if f.Pattern = hide - 1; hide == 0 {
			f.Pattern = c.query.Set.Match(state, base).Any
		}
		if f.Pattern < 0 && f.inode != 0 && c.query.Name != nil && c.query.Name(base) {
			f.Reason = SensitiveName
		}
	}
	switch {
	case f.Pattern >= 0 || f.Reason == SensitiveName:
		c.add(f, uint64(st.Dev))
	case f.inode != 0:
		c.single[n.name] = file{uint64(st.Dev), st.Ino}
	}
}

// add reports a path. A file that matches is hidden by all its names.
func (c *collection) add(f Found, dev uint64) {
	if f.inode != 0 && (f.Reason == Matched || f.Reason == SensitiveName) {
		c.files[file{dev, f.inode}] = hidden{f.Path, f.Pattern}
		c.direct = append(c.direct, f.Path)
	}
	c.out.Found = append(c.out.Found, f)
}

// gather reports what n contains.
func (c *collection) gather(n *node, path string) {
	for _, f := range n.found {
		if f.Path == "" {
			f.Path = path
		} else {
			f.Path = paths.Join(path, f.Path)
		}
		c.add(f, n.id.dev)
	}
	if n.hide > 0 {
		for inode := range n.files {
			c.files[file{n.id.dev, inode}] = hidden{path, n.hide - 1}
		}
	}
	for _, l := range n.links {
		if at := paths.Join(path, l.name); c.leads(at, l.state) {
			c.out.Found = append(c.out.Found, Found{Path: at, Reason: Leads, Symlink: true, Pattern: -1})
		}
	}
	for _, child := range n.dirs {
		c.gather(child, paths.Join(path, child.name))
	}
}

// leads reports whether a pattern can match behind a symlink, and not at the path that it leads to.
func (c *collection) leads(path string, state glob.State) bool {
	target, err := filepath.EvalSymlinks(path)
	if err != nil || !paths.InsideAny(c.roots, target) {
		return false // it leads nowhere, or where nobody can look
	}
	if info, err := os.Lstat(target); err != nil || !info.IsDir() {
		return false
	}
	lies, hide := c.query.Set.At(target)
	return hide == 0 && c.query.Set.Uncovered(state, lies) >= 0
}

// linked reports whether hidden files may have more names: one does, or is in a hidden directory.
func (c *collection) linked() bool {
	return len(c.files) > len(c.direct) || slices.ContainsFunc(c.direct, func(path string) bool {
		_, names := lstat(path)
		return names > 1
	})
}

// links reports other names of hidden files.
func (c *collection) links(n *node, path string) {
	if n.hide > 0 {
		return
	}
	for inode := range n.files {
		if _, ok := c.files[file{n.id.dev, inode}]; ok {
			c.name(path, n.id.dev)
			break
		}
	}
	for _, child := range n.dirs {
		c.links(child, paths.Join(path, child.name))
	}
}

// name reports the names in dir of hidden files.
func (c *collection) name(dir string, dev uint64) {
	entries, _, err := readDir(dir)
	if err != nil {
		return // removed since the scan read it
	}
	for _, e := range entries {
		at := paths.Join(dir, e.name)
		if h, ok := c.files[file{dev, e.inode}]; ok && e.kind == unix.DT_REG && h.path != at && !c.known[at] {
			c.linkTo(h, at)
		}
	}
}

// linkTo reports another name of a hidden file.
func (c *collection) linkTo(h hidden, at string) {
	c.out.Found = append(c.out.Found, Found{Path: at, Reason: HardLink, Pattern: h.pattern, LinkedName: h.path})
}

// checkInodes checks whether directories give the inode numbers of their files, and finds the files
// that have more names than the scan found.
func (c *collection) checkInodes() {
	found := map[file]uint64{} // names
	for _, f := range c.out.Found {
		if f.Reason == HardLink {
			id, _ := lstat(f.Path)
			found[id]++
		}
	}
	ids, names := make([]file, len(c.direct)), make([]uint64, len(c.direct))
	for i, path := range c.direct {
		ids[i], names[i] = lstat(path)
		found[ids[i]]++
	}
	for i, path := range c.direct {
		_, known := c.files[ids[i]]
		switch {
		case names[i] < 2:
		case !known:
			c.out.LinksUnknown = append(c.out.LinksUnknown, path)
		case found[ids[i]] < names[i]:
			c.out.Linked = append(c.out.Linked, path)
		}
	}
}
