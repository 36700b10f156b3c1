package holder

import (
	"sync"

	"golang.org/x/sys/unix"
)

// groupNamespaces are those that the inits of a group share.
const groupNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// A group is the namespaces that several inits share: an OS thread that is in them, and forks
// these inits over any tree. It cannot leave them, since the host's network namespace is not the
// holder's to enter.
type group struct {
	work    chan func()
	members sync.WaitGroup // inits that have joined the first
}

// newGroup makes the namespaces. The first process that is forked is pid 1.
func newGroup(namespaces uint32) (*group, *MountError) {
	g := &group{work: make(chan func())}
	ready := make(chan *MountError)
	go onOwnThread(func() {
		// Of its file system the thread has a view of its own, which follows the trees.
		if err := unix.Unshare(int(namespaces&groupNamespaces) | unix.CLONE_FS); err != nil {
			ready <- mountError("unshare", err)
			return
		}
		if err := dropAmbient(); err != nil {
			ready <- mountError("dropping capabilities", err)
			return
		}
		if err := forInits(); err != nil {
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

// do runs fn on the group's thread, in the mount namespace of a tree.
func (g *group) do(t *tree, fn func()) *MountError {
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

// enter gives what forks the init of a run: a group where it is the first of one or joins one, and
// how that is left.
func (c *client) enter(r *run, t *tree) (do func(func()) *MountError, leave func(), failed *MountError) {
	switch {
	case r.first:
		g, failed := newGroup(r.namespaces)
		if failed != nil {
			return nil, nil, failed
		}
		c.mu.Lock()
		c.groups[r.request] = g
		c.mu.Unlock()
		return func(fn func()) *MountError { return g.do(t, fn) }, func() {
			c.mu.Lock()
			delete(c.groups, r.request)
			c.mu.Unlock()
			g.members.Wait() // they have died with it
			close(g.work)
		}, nil
	case r.joins != 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		g := c.groups[r.joins]
		if g == nil {
			return nil, nil, &MountError{Index: -1, Call: "joining the session's processes", Reason: "they are gone"}
		}
		g.members.Add(1)
		return func(fn func()) *MountError { return g.do(t, fn) }, g.members.Done, nil
	}
	return func(fn func()) *MountError {
		t.do(fn)
		return nil
	}, func() {}, nil
}
