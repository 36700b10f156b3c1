package holder

import (
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// tree is one prepared tree: an OS thread with a mount namespace of its own. It forks inits, so
// that they see this tree, and die with it.
type tree struct {
	plan  string
	work  chan func()
	built *builder
	// covers restores mounts that the host removes, if sandboxes follow the tree; for its thread.
	covers *covers

	// Guarded by server.mu.
	ready   chan struct{} // closed when failed is final
	failed  *MountError
	running int    // inits, and requests that are about to start one
	used    uint64 // for the least recently used
	dropped bool   // not to be used again: ends with its last init
}

// start builds the tree and then runs work until that is closed.
func (t *tree) start(s *space, ops []Op) {
	t.failed = s.prepare(ops)
	if t.failed != nil {
		close(t.ready)
		return
	}
	go proc.OnOwnThread(func() { t.serve(s, ops) })
}

func (t *tree) serve(s *space, ops []Op) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.failed = mountError("unshare", err)
	} else if err := dropAmbient(); err != nil {
		t.failed = mountError("dropping capabilities", err)
	} else if err := forInits(initCaps); err != nil {
		t.failed = mountError("limiting capabilities", err)
	} else {
		t.built, t.failed = s.build(ops)
	}
	close(t.ready)
	if t.failed != nil {
		return
	}
	for fn := range t.work {
		fn()
	}
	if t.covers != nil {
		t.covers.changes.Close()
	}
	t.built.close()
}

// dropAmbient limits what this thread executes to capabilities that it is given.
func dropAmbient() error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

func (t *tree) do(fn func()) {
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		fn()
	}
	<-done
}
