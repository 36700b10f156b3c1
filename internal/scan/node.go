//go:build unix

package scan

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// A node is the remembered state of one directory.
type node struct {
	name  string
	state glob.State // of the patterns, in this directory
	hide  int        // 1 + the index of the pattern that matches it or a directory above it; 0 for none

	id            identity
	timesReliable bool // id will differ after the next change
	names         int
	dirs          []*node
	shallow       bool     // dirs does not have all of its directories
	found         []Found  // their paths are names in it, or empty for the directory itself
	links         []string // symlinks to follow if they lead to a directory
	inodes        []uint64 // of its regular files that match no pattern
}

// reportSelf reports the directory, unless a pattern matches it or a directory above it.
func (n *node) reportSelf(why Reason, owner uint32) {
	if n.hide == 0 {
		n.found = append(n.found, Found{Reason: why, Dir: true, Pattern: -1, UID: owner})
	}
}

// foundAt returns the finding of an entry of a directory.
func foundAt(path string, e hostpath.Entry, why Reason, pattern int) Found {
	f := Found{Path: path, Reason: why, Dir: e.Kind == unix.DT_DIR, Symlink: e.Kind == unix.DT_LNK, Pattern: pattern}
	if e.Kind == unix.DT_REG {
		f.inode = e.Inode
	}
	return f
}

// identity changes with each change to a directory, and two directories have different ones: nobody can
// set a change time, so it differs also if a new directory gets the inode number of an old one.
type identity struct {
	dev, ino     uint64
	mtime, ctime int64
}

// settling is the age from which the scanner believes a directory's times: the coarsest clock of a
// file system in use, FAT's, ticks every two seconds.
const settling = 2 * time.Second

// timesReliable reports whether the next change of the directory must change the times in id.
func timesReliable(id identity, now time.Time) bool {
	return now.Sub(time.Unix(0, max(id.ctime, id.mtime))) > settling
}

// clockStep is a change of clockLead that is too large for an inaccurate reading of two clocks:
// somebody has set the wall clock, and a change to a directory can have an old time again.
const clockStep = settling / 2

// read reads a directory again. It keeps the known nodes of directories in it, to compare them.
func (w *walk) read(n *node, path string, last bool) error {
	known := n.dirs
	*n = node{name: n.name, state: n.state, hide: n.hide}
	now := w.now()
	// Most directories have fewer than 64 entries. Those, and their inodes below, need no new page of the heap.
	entries, id, err := readDir(path, make([]hostpath.Entry, 0, 64))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return nil // removed, or never a directory
	case errors.Is(err, fs.ErrPermission):
		if st, err := hostpath.Lstat(path); err == nil {
			n.reportSelf(Unsearched, st.Uid)
		}
		return nil
	case err != nil:
		return &fs.PathError{Op: "search", Path: path, Err: err}
	}
	n.id, n.names = id, len(entries)
	n.timesReliable = timesReliable(id, now)
	n.shallow = last && len(known) == 0
	w.sort(n, path, entries, known)
	return nil
}

// sort fills n from its entries.
func (w *walk) sort(n *node, path string, entries []hostpath.Entry, known []*node) {
	was := map[string]*node{}
	for _, k := range known {
		was[k.name] = k
	}
	var head, objects, refs, common bool // of a git directory
	inodes := make([]uint64, 0, 64)
	for _, e := range entries {
		pattern, named := w.judge(n, path, e)
		switch {
		case e.Kind == unix.DT_DIR && n.shallow:
		case e.Kind == unix.DT_DIR:
			w.enter(n, e.Name, pattern, was[e.Name])
		case pattern >= 0:
		case e.Kind == unix.DT_REG && !named:
			inodes = append(inodes, e.Inode)
		case e.Kind == unix.DT_LNK && n.hide == 0:
			// If the name itself moves no pattern forward, the scan finds everything behind the
			// link at its own path.
			if w.query.Set.Uncovered(w.query.Set.Next(n.state, e.Name), w.query.Set.Start()) >= 0 {
				n.links = append(n.links, strings.Clone(e.Name))
			}
		case e.Kind == unix.DT_SOCK && w.query.Sockets && n.hide == 0:
			n.found = append(n.found, foundAt(strings.Clone(e.Name), e, Socket, -1))
		}
		if !w.query.Repositories || n.hide != 0 {
			continue
		}
		switch e.Name {
		case ".git":
			n.reportSelf(Repository, 0)
		case "HEAD":
			head = e.Kind != unix.DT_DIR
		case "objects":
			objects = true
		case "refs":
			refs = true
		case "commondir": // names the directory of the others
			common = true
		}
	}
	n.inodes = slices.Clone(inodes) // without spare capacity
	switch {
	case n.name == ".git" || !head:
	case objects && refs:
		n.reportSelf(Bare, 0)
	case common:
		n.reportSelf(OfWorktree, 0)
	}
}

// judge adds an entry to the findings of n if its name matches. It returns the index of the
// matching pattern, negative for none, and whether the query's Name matched instead.
func (w *walk) judge(n *node, path string, e hostpath.Entry) (pattern int, named bool) {
	m := glob.None
	if n.hide == 0 {
		m = w.query.Set.Match(n.state, e.Name)
	}
	pattern = m.Any
	if e.Kind == unix.DT_DIR {
		pattern = m.Dir
	} else if e.Kind == unix.DT_LNK && m.Dir != m.Any {
		// The link's target can change without this directory's times.
		n.timesReliable = false
		if info, err := os.Stat(paths.Join(path, e.Name)); err == nil && info.IsDir() {
			pattern = m.Dir
		}
	}
	named = pattern < 0 && n.hide == 0 && e.Kind != unix.DT_DIR && w.query.Name != nil && w.query.Name(e.Name)
	report := func(why Reason) { n.found = append(n.found, foundAt(strings.Clone(e.Name), e, why, pattern)) }
	if pattern >= 0 {
		report(Matched)
	} else if named {
		report(SensitiveName)
	}
	if n.hide == 0 && w.query.MatchName != nil && w.query.MatchName(e.Name) {
		report(NameMatch)
	}
	return pattern, named
}

// enter adds the directory of that name to n, if the scan can find anything in it.
func (w *walk) enter(n *node, name string, pattern int, known *node) {
	hide := n.hide
	if hide == 0 && pattern >= 0 {
		hide = pattern + 1
	}
	child := &node{name: strings.Clone(name), hide: hide}
	if hide == 0 {
		if child.state = w.query.Set.Next(n.state, name); slices.Equal(child.state, n.state) {
			child.state = n.state
		}
	}
	if known != nil && known.hide == hide {
		child = known
	}
	n.dirs = append(n.dirs, child)
}
