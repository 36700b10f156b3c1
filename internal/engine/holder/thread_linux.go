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
	failed  *MountError
	running int  // inits, and requests that are about to start one
	dropped bool // not to be used again: ends with its last init
}

// make builds the tree.
func (t *tree) make(s *space) (failed *MountError) {
	var err error
	if t.ops, err = t.plan.ops(); err != nil {
		return mountError("reading the plan", err)
	}
	if failed = s.prepare(t.ops); failed != nil {
		return failed
	}
	t.thread, failed = newThread(unix.CLONE_NEWNS, func() (failed *MountError) {
		t.built, failed = s.build(t.ops)
		return failed
	})
	return failed
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
func newThread(namespaces int, begin func() *MountError) (thread *proc.Thread, failed *MountError) {
	thread = proc.NewThread()
	thread.Do(func() {
		if err := unix.Unshare(namespaces); err != nil {
			failed = mountError("unshare", err)
		} else if err := forInits(); err != nil {
			failed = mountError("limiting capabilities", err)
		} else {
			failed = begin()
		}
	})
	if failed != nil {
		thread.End()
		return nil, failed
	}
	return thread, nil
}
