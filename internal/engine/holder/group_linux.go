package holder

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// groupNamespaces are those that the inits of a group share.
const groupNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// A group is a set of namespaces that several inits share: an OS thread is in them, and forks these
// inits over any tree. It cannot leave them, because the holder may not enter the host's network
// namespace.
type group struct {
	thread *proc.Thread
	first  *frame.Conn // of the first init: the client hears there of restored mounts

	mu    sync.Mutex
	trees []*tree // those that its sandboxes follow, the last used at the end
}

// maxFollowed bounds the trees of a group. A sandbox of an older one loses a mount if somebody
// replaces its mount point.
const maxFollowed = 16

// newGroup makes the namespaces. The first process that is forked is pid 1.
func newGroup(namespaces uint32, first *frame.Conn) (*group, error) {
	// The thread has a file system view of its own, which follows the trees.
	thread, err := newThread(int(namespaces&groupNamespaces)|unix.CLONE_FS, func() error { return nil })
	return &group{thread: thread, first: first}, err
}

// report tells the client about a mount that was restored, or could not be.
func (g *group) report(dest string, err error) {
	m := &restoredMount{dest: dest}
	if err != nil {
		m.reason = err.Error()
	}
	go g.first.Write(msgRestored, m) // a client that does not read must not delay a mount
}

// follow keeps a tree while sandboxes of the group may follow it.
func (g *group) follow(s *server, t *tree) (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.trees, t); i >= 0 {
		g.trees = append(slices.Delete(g.trees, i, i+1), t)
		return nil
	}
	t.thread.Do(func() { err = t.follow(s, g) })
	if err != nil {
		return err
	}
	s.stay(t)
	g.trees = append(g.trees, t)
	if len(g.trees) > maxFollowed {
		g.trees[0].covers.leave(g)
		s.exit(g.trees[0])
		g.trees = g.trees[1:]
	}
	return nil
}

// end releases the group's parts, after the first init and all that have joined it.
func (g *group) end(s *server) {
	g.thread.End()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.trees {
		t.covers.leave(g)
		s.exit(t)
	}
	g.trees = nil
}

// do runs fn on the group's thread, in the mount namespace of a tree.
func (g *group) do(s *server, t *tree, fn func()) error {
	if err := g.follow(s, t); err != nil {
		return err
	}
	var mounts int
	var err error
	t.thread.Do(func() { mounts, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return mountError("opening the namespace of a tree", err)
	}
	defer unix.Close(mounts)
	g.thread.Do(func() {
		if err = unix.Setns(mounts, unix.CLONE_NEWNS); err == nil {
			fn()
		}
	})
	return mountError("entering the namespace of a tree", err)
}
