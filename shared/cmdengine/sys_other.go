//go:build !linux

package cmdengine

import (
	"os"
	"syscall"
	"time"
)

// There is no parent-death signal outside Linux.
func dieWithParent(*syscall.SysProcAttr) {}

// holdDir holds nothing: macOS has no path for an open directory.
func holdDir(dir string) (*os.File, string, syscall.Errno) { return nil, dir, 0 }

// givePipes does nothing: /dev/fd duplicates descriptors here.
func givePipes([]*os.File, *syscall.Credential) {}

// reap kills the rest of the group after its leader was reaped. While the group has members, its
// number cannot be another's.
func (r *directRun) reap(pid int) (*os.ProcessState, error) {
	state, err := r.process.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = true
	syscall.Kill(-pid, syscall.SIGKILL)
	return state, err
}

// exiting is not needed: only on Linux do processes outlive their commands.
func exiting(int) bool { return false }

// awaitGroup polls until a killed group has no members: one cannot wait for another process's
// child.
func awaitGroup(pgid int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	patience := time.After(reapPatience)
	for syscall.Kill(-pgid, 0) != syscall.ESRCH {
		select {
		case <-tick.C:
		case <-patience:
			return
		}
	}
}

// family needs Linux's pidfds. Engines elsewhere have no init either.
type family struct{}

func (*family) observe(int, bool, <-chan struct{}) {}
func (*family) end()                               {}
