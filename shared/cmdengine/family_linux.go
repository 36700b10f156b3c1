package cmdengine

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// family has the children of a launcher as pidfds, which cannot come to mean another process. A
// killed launcher leaves dying children, such as pid 1 of the sandbox, which is gone only after
// everything in its namespace.
type family struct {
	mu    sync.Mutex
	fds   []int
	ended bool
}

// observe records the current children of pid, or all its descendants, unless pid was reaped, which
// closes gone: its number may then be another process's.
func (f *family) observe(pid int, all bool, gone <-chan struct{}) {
	of := proc.Children
	if all {
		of = proc.Descendants
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fds) > 0 || f.ended {
		return
	}
	opened := map[int]int{}
	for _, child := range of(pid) {
		if fd, err := unix.PidfdOpen(child, 0); err == nil {
			opened[child] = fd
		}
	}
	// A pid that is still a child had its number all the time. Never kill another process that took
	// over the number of a dead one.
	for _, child := range of(pid) {
		if fd, ok := opened[child]; ok {
			f.fds = append(f.fds, fd)
			delete(opened, child)
		}
	}
	for _, fd := range opened {
		unix.Close(fd)
	}
	select {
	case <-gone:
		f.release()
	default:
	}
}

// end kills them and waits for their ends.
func (f *family) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.fds {
		if !proc.Ended(fd, 0) {
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			proc.Ended(fd, reapPatience)
		}
	}
	f.ended = true
	f.release()
}

func (f *family) release() {
	frame.CloseAll(f.fds)
	f.fds = nil
}
