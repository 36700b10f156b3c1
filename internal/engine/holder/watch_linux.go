package holder

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A watch tells whether the host has mounted or unmounted something. Trees have
// private copies of the host's mounts: what came to one by propagation would have
// neither the right nor the lack of it that the tree's step gives, so that a disk
// that is mounted beneath a read-only bind could be written to. Instead, trees
// that were made before are made anew.
type watch struct {
	mu      sync.Mutex
	table   int  // the mount table of the holder's own namespace
	pending bool // a change that own has met
}

// newWatch must be called where /proc is the host's. The first thread is never in
// a tree, and self is its view.
func newWatch() (*watch, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("opening the mount table", err)
	}
	return &watch{table: fd}, nil
}

// changed reports whether the table is another one than at the last call.
func (w *watch) changed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.poll() || w.pending
	w.pending = false
	return changed
}

// ignoreOwn makes a change that is not the host's.
func (w *watch) ignoreOwn(change func() *MountError) *MountError {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = w.poll() || w.pending
	failed := change()
	w.poll()
	return failed
}

func (w *watch) poll() bool {
	fds := []unix.PollFd{{Fd: int32(w.table), Events: unix.POLLPRI}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err != nil || n > 0
		}
	}
}
