package holder

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A watch reports whether the host has mounted or unmounted something; the holder then makes its
// trees again. Trees have private copies of the host's mounts: a mount that came by propagation would
// not have the access of the tree's step, so that commands could write to a disk that is mounted
// beneath a read-only bind.
type watch struct {
	mu      sync.Mutex
	table   int  // the mount table of the holder's own namespace
	pending bool // a change during ignoreOwn
}

// newWatch must be called while /proc is the host's. The path has the view of the first thread, which
// is never in a tree.
func newWatch() (*watch, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("opening the mount table", err)
	}
	return &watch{table: fd}, nil
}

// changed reports whether the table differs from the last call's.
func (w *watch) changed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.poll() || w.pending
	w.pending = false
	return changed
}

// ignoreOwn makes a change that is not the host's.
func (w *watch) ignoreOwn(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = w.poll() || w.pending
	change()
	w.poll()
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
