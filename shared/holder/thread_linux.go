package holder

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// treeKey tells trees apart.
type treeKey struct {
	plan  string
	inits bool // are started there, not launchers
}

// tree is one prepared tree: an OS thread with a mount namespace of its own.
// Launchers are forked by it, so that they see this tree, and die with it.
type tree struct {
	treeKey
	work  chan func()
	built *builder

	// under server.mu
	ready   chan struct{} // closed when failed is final
	failed  *MountError
	running int    // launchers, and requests that are about to start one
	used    uint64 // for the least recently used
	dropped bool   // not to be used again: ends with its last launcher
}

// start builds the tree and then does what it is told until work is closed.
func (t *tree) start(s *space, ops []Op) {
	t.failed = s.prepare(ops)
	if t.failed != nil {
		close(t.ready)
		return
	}
	go func() {
		// Never unlocked: the thread ends with the goroutine, and its namespace
		// with it. The runtime starts no thread from a locked one.
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			// The first thread lives for ever, and /proc/self is its view. Held
			// here, another is used.
			go t.serve(s, ops)
			<-t.ready
			runtime.UnlockOSThread()
			return
		}
		t.serve(s, ops)
	}()
}

func (t *tree) serve(s *space, ops []Op) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.failed = mountError("unshare", err)
	} else if err := dropAmbient(); err != nil {
		t.failed = mountError("dropping capabilities", err)
	} else if err := t.limit(); err != nil {
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
	t.built.close()
}

func (t *tree) limit() error {
	if !t.inits {
		return nil
	}
	return forInits()
}

// dropAmbient lets nothing that this thread executes have capabilities.
// bubblewrap refuses to run with any that it did not expect.
func dropAmbient() error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// do runs fn on the tree's thread.
func (t *tree) do(fn func()) {
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		fn()
	}
	<-done
}
