//go:build unix

package scan

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// A file is a regular file under all its names.
type file struct{ dev, inode uint64 }

// fileAt returns the file at a path and the number of its names: 0 if it is gone.
func fileAt(path string) (id file, names uint64) {
	st, _ := lstat(path)
	return file{uint64(st.Dev), st.Ino}, uint64(st.Nlink)
}

// hiddenName is one name of a hidden file.
type hiddenName struct {
	path    string
	pattern int
}

// collect makes a Result from the remembered directories.
func (w *walk) collect(root *node, roots []string) *Result {
	c := &collection{walk: w, roots: roots, files: map[file]hiddenName{}, single: map[string]file{}, out: &Result{}}
	for _, n := range root.dirs {
		c.root(n)
		c.gather(n, n.name)
	}
	if c.mayHaveLinks() {
		c.known = make(map[string]bool, len(c.direct))
		for _, path := range c.direct {
			c.known[path] = true
		}
		for _, n := range root.dirs {
			c.addLinks(n, n.name)
		}
		for path, id := range c.single {
			if h, ok := c.files[id]; ok {
				c.addLink(h, path)
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
	files  map[file]hiddenName // the hidden files
	direct []string            // names of files that match a pattern
	known  map[string]bool     // direct, as a set; nil before addLinks
	single map[string]file     // roots that are files and match no pattern
	out    *Result
}

// root reports a root that matches. It can be a file.
func (c *collection) root(n *node) {
	st, err := lstat(n.name)
	if err != nil {
		return
	}
	f := foundAt(n.name, dirent{kind: byte(st.Mode & unix.S_IFMT >> 12), inode: st.Ino}, Matched, n.hide-1)
	if !f.Dir {
		f.Pattern = c.query.Set.Cover(n.name, false)
		if f.Pattern < 0 && f.inode != 0 && c.query.Name != nil && c.query.Name(filepath.Base(n.name)) {
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
		c.files[file{dev, f.inode}] = hiddenName{f.Path, f.Pattern}
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
			c.files[file{n.id.dev, inode}] = hiddenName{path, n.hide - 1}
		}
	}
	for _, link := range n.links {
		if at := paths.Join(path, link); c.leads(at) {
			c.out.Found = append(c.out.Found, Found{Path: at, Reason: Leads, Symlink: true, Pattern: -1})
		}
	}
	for _, child := range n.dirs {
		c.gather(child, paths.Join(path, child.name))
	}
}

// leads reports whether a pattern can match behind a symlink, and not at the path that it leads to.
func (c *collection) leads(path string) bool {
	target, err := filepath.EvalSymlinks(path)
	if err != nil || !paths.InsideAny(c.roots, target) {
		return false // the target is missing, or outside of the trees, where commands cannot look
	}
	info, err := os.Lstat(target)
	return err == nil && info.IsDir() && c.query.Set.Behind(path, target) >= 0
}

// mayHaveLinks reports whether hidden files may have more names: one does, or is in a hidden directory.
func (c *collection) mayHaveLinks() bool {
	return len(c.files) > len(c.direct) || slices.ContainsFunc(c.direct, func(path string) bool {
		_, names := fileAt(path)
		return names > 1
	})
}

// addLinks reports other names of hidden files.
func (c *collection) addLinks(n *node, path string) {
	if n.hide > 0 {
		return
	}
	for inode := range n.files {
		if _, ok := c.files[file{n.id.dev, inode}]; ok {
			c.addNames(path, n.id.dev)
			break
		}
	}
	for _, child := range n.dirs {
		c.addLinks(child, paths.Join(path, child.name))
	}
}

// addNames reports the names in dir of hidden files.
func (c *collection) addNames(dir string, dev uint64) {
	entries, _, err := readDir(dir)
	if err != nil {
		return // removed since the scan read it
	}
	for _, e := range entries {
		at := paths.Join(dir, e.name)
		if h, ok := c.files[file{dev, e.inode}]; ok && e.kind == unix.DT_REG && h.path != at && !c.known[at] {
			c.addLink(h, at)
		}
	}
}

// addLink reports another name of a hidden file.
func (c *collection) addLink(h hiddenName, at string) {
	c.out.Found = append(c.out.Found, Found{Path: at, Reason: HardLink, Pattern: h.pattern, LinkedName: h.path})
}

// checkInodes checks whether directories give the inode numbers of their files, and finds the files
// that have more names than the scan found.
func (c *collection) checkInodes() {
	found := map[file]uint64{} // number of found names
	for _, f := range c.out.Found {
		if f.Reason == HardLink {
			id, _ := fileAt(f.Path)
			found[id]++
		}
	}
	for _, path := range c.direct {
		id, _ := fileAt(path)
		found[id]++
	}
	for _, path := range c.direct {
		id, names := fileAt(path)
		_, known := c.files[id]
		switch {
		case names < 2:
		case !known:
			c.out.LinksUnknown = append(c.out.LinksUnknown, path)
		case found[id] < names:
			c.out.Linked = append(c.out.Linked, path)
		}
	}
}
