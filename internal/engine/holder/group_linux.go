package holder

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// groupNamespaces are those that the inits of a group share.
const groupNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// A group is a set of namespaces that several inits share: an OS thread is in them, and forks these
// inits over any tree. It cannot leave them, because the holder may not enter the host's network
// namespace.
type group struct {
	work    chan func()
	members sync.WaitGroup // inits that have joined the first
	// report tells the client about a mount that was restored, or could not be.
	report func(dest string, failed *MountError)

	mu    sync.Mutex
	trees []*tree // those that its sandboxes follow, the last used at the end
}

// maxFollowed bounds the trees of a group. A sandbox of an older one loses a mount if somebody
// replaces its mount point.
const maxFollowed = 16

// newGroup makes the namespaces. The first process that is forked is pid 1.
func newGroup(namespaces uint32) (*group, *MountError) {
	g := &group{work: make(chan func())}
	ready := make(chan *MountError)
	go proc.OnOwnThread(func() {
		// The thread has a file system view of its own, which follows the trees.
		if err := unix.Unshare(int(namespaces&groupNamespaces) | unix.CLONE_FS); err != nil {
			ready <- mountError("unshare", err)
			return
		}
		if err := dropAmbient(); err != nil {
			ready <- mountError("dropping capabilities", err)
			return
		}
		if err := forInits(initCaps); err != nil {
			ready <- mountError("limiting capabilities", err)
			return
		}
		ready <- nil
		for fn := range g.work {
			fn()
		}
	})
	return g, <-ready
}

// follow keeps a tree while sandboxes of the group may follow it.
func (g *group) follow(s *server, t *tree) (failed *MountError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.Contains(g.trees, t) {
		return nil
	}
	t.do(func() { failed = t.follow(s, g) })
	if failed != nil {
		return failed
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

// end releases the group's parts.
func (g *group) end(s *server) {
	g.members.Wait() // they have died with the first
	close(g.work)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.trees {
		t.covers.leave(g)
		s.exit(t)
	}
	g.trees = nil
}

// do runs fn on the group's thread, in the mount namespace of a tree.
func (g *group) do(s *server, t *tree, fn func()) *MountError {
	if failed := g.follow(s, t); failed != nil {
		return failed
	}
	var mounts int
	var err error
	t.do(func() { mounts, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return mountError("opening the namespace of a tree", err)
	}
	defer unix.Close(mounts)
	done := make(chan struct{})
	g.work <- func() {
		defer close(done)
		if err = unix.Setns(mounts, unix.CLONE_NEWNS); err == nil {
			fn()
		}
	}
	<-done
	if err != nil {
		return mountError("entering the namespace of a tree", err)
	}
	return nil
}

// enter returns do, which runs a function on the thread that forks the init of a run (a group's
// thread or the tree's), and leave, which leaves the group.
func (c *client) enter(r *run, t *tree) (do func(func()) *MountError, leave func(), failed *MountError) {
	switch {
	case r.first:
		g, failed := newGroup(r.namespaces)
		if failed != nil {
			return nil, nil, failed
		}
		g.report = func(dest string, failed *MountError) {
			m := &restored{request: r.request, dest: dest}
			if failed != nil {
				m.reason = failed.Error()
			}
			go c.conn.write(msgRestored, m) // a client that does not read must not delay a mount
		}
		c.mu.Lock()
		c.groups[r.request] = g
		c.mu.Unlock()
		return func(fn func()) *MountError { return g.do(c.server, t, fn) }, func() {
			c.mu.Lock()
			delete(c.groups, r.request)
			c.mu.Unlock()
			g.end(c.server)
		}, nil
	case r.joins != 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		g := c.groups[r.joins]
		if g == nil {
			return nil, nil, &MountError{Index: -1, Call: "joining the session's processes", Reason: "they are gone"}
		}
		g.members.Add(1)
		return func(fn func()) *MountError { return g.do(c.server, t, fn) }, g.members.Done, nil
	}
	return func(fn func()) *MountError {
		t.do(fn)
		return nil
	}, func() {}, nil
}
