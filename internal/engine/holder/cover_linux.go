package holder

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// covers restores mounts of a tree that the host removes while groups use it: the kernel unmounts
// what is mounted on a file when somebody removes the file, or renames another file over it. Without
// groups, the next command does that: the stubs of missing paths come and go with commands. The
// tree's sandboxes are slaves of its mounts, and propagation brings new mounts to them.
type covers struct {
	server  *server
	tree    *tree
	changes *os.File // of the directories, by inotify

	names map[string]bool // of what the steps cover, in any directory; for the tree's thread

	mu     sync.Mutex
	groups map[*group]bool
}

// coverMask are the events that can remove a mount, or put another file under it.
const coverMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR

// follow makes a group's sandboxes follow the mounts of a tree. It must run on the tree's thread,
// before the first of these sandboxes starts.
func (t *tree) follow(s *server, g *group) error {
	if t.covers == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return mountError("watching the mounts of a tree", err)
		}
		t.covers = &covers{server: s, tree: t, changes: os.NewFile(uintptr(fd), "changes"), names: map[string]bool{}, groups: map[*group]bool{}}
		for i := range t.ops {
			if err := t.covers.watch(t.ops[i]); err != nil {
				g.report(t.ops[i].Dest, mountError("watching", err))
				break // too many for this user
			}
		}
		go t.covers.serve()
	}
	t.covers.mu.Lock()
	defer t.covers.mu.Unlock()
	t.covers.groups[g] = true
	return nil
}

func (c *covers) leave(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, g)
}

// covering reports whether a step covers something that may exist on the host.
func covering(o Op) bool {
	switch o.Kind {
	case Bind, ReadOnlyBind, Pin, HideFile, HideDirectory:
		return true
	}
	return false
}

// watch watches the directory of a step's path.
func (c *covers) watch(o Op) error {
	b := c.tree.built
	if !covering(o) {
		return nil
	}
	dir, name := path.Split(strings.TrimPrefix(o.Dest, "/"))
	fd, err := openBeneath(b.trees, strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil // it is missing; another watch covers its own directory, if it can appear
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || b.ownMounts[uint64(st.Dev)] {
		return err // only commands can rename there
	}
	c.names[name] = true
	return frame.Control(c.changes, func(notify int) error {
		_, err := unix.InotifyAddWatch(notify, fdPath+strconv.Itoa(fd), coverMask)
		return err
	})
}

// serve restores lost mounts until the tree ends.
func (c *covers) serve() {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.changes.Read(buf)
		if err != nil {
			return // closed
		}
		if !c.server.stay(c.tree) {
			return
		}
		c.tree.thread.Do(func() { c.heed(buf[:n]) })
		c.server.exit(c.tree)
	}
}

// heed restores lost mounts, if an event can be about one. It runs on the tree's thread.
func (c *covers) heed(events []byte) {
	for known := false; !known; {
		if len(events) < unix.SizeofInotifyEvent {
			return
		}
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		if size > len(events) {
			return
		}
		name := bytes.TrimRight(events[unix.SizeofInotifyEvent:size], "\x00")
		known = c.names[string(name)] || binary.NativeEndian.Uint32(events[4:])&unix.IN_Q_OVERFLOW != 0
		events = events[size:]
	}
	c.tree.putBack()
}

// putBack restores the mounts that the host has removed, in the tree and in the sandboxes that follow
// it. It runs on the tree's thread.
func (t *tree) putBack() {
	b, lost := t.built, []Op{}
	for _, o := range t.ops {
		switch dest := strings.TrimPrefix(o.Dest, "/"); {
		case !covering(o):
		case !b.inPlace(dest):
			b.mounts[dest] = lostMount // the next mount gets its number
			fallthrough
		case b.mounts[dest] == absentMount:
			lost = append(lost, o)
		}
	}
	for _, o := range lost {
		var err error
		if t.covers != nil { // its directory may be another one, in which it appears next
			err = mountError("watching", t.covers.watch(o))
		}
		if _, missing := mountID(b.trees, strings.TrimPrefix(o.Dest, "/")); missing != nil {
			continue // nothing is there to cover; another event comes when it appears
		}
		// A command may have used up this user's watches.
		err = cmp.Or(b.again(o), err)
		if t.covers != nil {
			t.covers.report(o.Dest, err)
		}
	}
}

// moved reports whether a mount is not where it was, but still somewhere: the host has moved away what
// it lies on. There it would go on to hide or protect what the plan does not. It must run on the tree's
// thread.
func (b *builder) moved() bool {
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	for dest, id := range b.mounts {
		if !b.inPlace(dest) && (err != nil || bytes.Contains(table, []byte("\n"+strconv.FormatUint(id, 10)+" "))) {
			return true
		}
	}
	return false
}

// again repeats a step of the tree for what is at its path now.
func (b *builder) again(o Op) error {
	dest := strings.TrimPrefix(o.Dest, "/")
	b.sources = slices.DeleteFunc(b.sources, func(s sourceStamp) bool { return s.dest == dest })
	return b.step(o)
}

func (c *covers) report(dest string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := range c.groups {
		g.report(dest, err)
	}
}
