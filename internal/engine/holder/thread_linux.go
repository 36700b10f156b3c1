package holder

import (
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// tree is one prepared tree: an OS thread with a mount namespace of its own. It forks inits, so
// that they see this tree, and die with it.
type tree struct {
	plan   Plan
	ops    []Op
	thread *proc.Thread // nil if failed is not
	built  *builder
	// covers restores mounts that the host removes, if sandboxes follow the tree; for its thread.
	covers *covers

	// Guarded by server.mu.
	ready   chan struct{} // closed when failed is final
	failed  error
	running int  // inits, and requests that are about to start one
	dropped bool // not to be used again: ends with its last init
}

// make builds the tree.
func (t *tree) make(s *space) (err error) {
	if t.ops, err = t.plan.ops(); err != nil {
		return mountError("reading the plan", err)
	}
	if err = s.prepare(t.ops); err != nil {
		return err
	}
	t.thread, err = newThread(unix.CLONE_NEWNS, func() (err error) {
		if t.built, err = s.build(t.ops); err != nil {
			return err
		}
		// Its sandboxes get what is mounted later; see putBack.
		err = unix.MountSetattr(unix.AT_FDCWD, Trees, unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_SHARED})
		if err != nil {
			t.built.close()
		}
		return mountError("sharing the mounts of a tree", err)
	})
	return err
}

// endUnused ends a dropped tree without users. The caller holds server.mu.
func (t *tree) endUnused() {
	if !t.dropped || t.running > 0 || t.thread == nil {
		return
	}
	if t.covers != nil {
		t.covers.changes.Close()
	}
	t.built.close()
	t.thread.End()
}

// newThread makes a thread that forks inits, with new namespaces, and calls begin on it.
func newThread(namespaces int, begin func() error) (thread *proc.Thread, err error) {
	thread = proc.NewThread()
	thread.Do(func() {
		if err = mountError("unshare", unix.Unshare(namespaces)); err == nil {
			err = mountError("limiting capabilities", forInits())
		}
		if err == nil {
			err = begin()
		}
	})
	if err != nil {
		thread.End()
		return nil, err
	}
	return thread, nil
}
