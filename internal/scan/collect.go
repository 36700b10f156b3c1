//go:build unix

package scan

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// A file is a regular file under all its names.
type file struct{ dev, inode uint64 }

// fileAt returns the file at a path and the number of its names: 0 if it is gone.
func fileAt(path string) (id file, names uint64) {
	st, _ := hostpath.Lstat(path)
	return file{uint64(st.Dev), st.Ino}, uint64(st.Nlink)
}

// collect returns what the remembered directories contain.
func (w *walk) collect() []Found {
	c := &collection{walk: w, files: map[file]*Found{}, direct: map[string]*Found{}}
	for _, n := range w.root.dirs {
		c.addRoot(n)
		c.gather(n, n.name)
	}
	linked, missing := map[string]file{}, map[file]int{} // files with more names, and how many of these are not found
	for path := range c.direct {
		if id, names := fileAt(path); names > 1 {
			linked[path], missing[id] = id, int(names)
		}
	}
	if len(linked) > 0 || len(c.files) > len(c.direct) { // one, or one in a hidden directory
		for _, n := range w.root.dirs {
			c.addLinks(n, n.name)
			id, _ := fileAt(n.name) // it can be a file itself
			if h := c.files[id]; h != nil && c.direct[n.name] == nil {
				c.addLink(h, n.name)
			}
		}
	}
	for _, f := range c.found {
		if f.Reason == HardLink {
			id, _ := fileAt(f.Path) // a directory may give another number than the file has
			missing[id]--
		}
	}
	for _, id := range linked {
		missing[id]--
	}
	for path, id := range linked {
		pattern := c.direct[path].Pattern
		if c.files[id] == nil {
			c.found = append(c.found, Found{Path: path, Reason: LinksUnknown, Pattern: pattern})
		} else if missing[id] > 0 {
			c.found = append(c.found, Found{Path: path, Reason: Linked, Pattern: pattern})
		}
	}
	return Merge(c.found, nil)
}

type collection struct {
	*walk
	files  map[file]*Found   // the hidden files; of a file in a hidden directory, the directory
	direct map[string]*Found // files that match, by name
	found  []Found
}

// addRoot reports a root that matches. It can be a file.
func (c *collection) addRoot(n *node) {
	st, err := hostpath.Lstat(n.name)
	if err != nil {
		return
	}
	f := foundAt(n.name, hostpath.Entry{Kind: byte(st.Mode & unix.S_IFMT >> 12), Inode: st.Ino}, Matched, n.hide-1)
	if !f.Dir {
		f.Pattern = c.query.Set.Cover(n.name, false)
		if f.Pattern < 0 && f.inode != 0 && c.query.Name != nil && c.query.Name(filepath.Base(n.name)) {
			f.Reason = SensitiveName
		}
	}
	if f.Pattern >= 0 || f.Reason == SensitiveName {
		c.add(f, uint64(st.Dev))
	}
}

// add reports a path. A file that matches is hidden by all its names.
func (c *collection) add(f Found, dev uint64) {
	if f.inode != 0 && (f.Reason == Matched || f.Reason == SensitiveName) {
		c.files[file{dev, f.inode}], c.direct[f.Path] = &f, &f
	}
	c.found = append(c.found, f)
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
		dir := &Found{Path: path, Pattern: n.hide - 1}
		for _, inode := range n.inodes {
			c.files[file{n.id.dev, inode}] = dir
		}
	}
	for _, link := range n.links {
		if at := paths.Join(path, link); c.leads(at) {
			c.found = append(c.found, Found{Path: at, Reason: Leads, Symlink: true, Pattern: -1})
		}
	}
	for _, child := range n.dirs {
		if child.hide+len(child.found)+len(child.links)+len(child.dirs) > 0 { // most have nothing: no path is made for them
			c.gather(child, paths.Join(path, child.name))
		}
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

// addLinks reports other names of hidden files.
func (c *collection) addLinks(n *node, path string) {
	if n.hide > 0 {
		return
	}
	for _, inode := range n.inodes {
		if c.files[file{n.id.dev, inode}] != nil {
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
	entries, _, err := readDir(dir, nil)
	if err != nil {
		return // removed since the scan read it
	}
	for _, e := range entries {
		at := paths.Join(dir, e.Name)
		if h := c.files[file{dev, e.Inode}]; h != nil && e.Kind == unix.DT_REG && c.direct[at] == nil {
			c.addLink(h, at)
		}
	}
}

// addLink reports another name of a hidden file.
func (c *collection) addLink(h *Found, at string) {
	c.found = append(c.found, Found{Path: at, Reason: HardLink, Pattern: h.Pattern, LinkedName: h.Path})
}
