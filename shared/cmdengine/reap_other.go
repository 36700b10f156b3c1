//go:build !linux

package cmdengine

import (
	"os"
	"syscall"
)

// reap kills what is left of the group once its leader is reaped. As long as
// anybody is left, the group's number cannot be another's.
func (r *directRun) reap(pid int) (*os.ProcessState, error) {
	state, err := r.process.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = true
	syscall.Kill(-pid, syscall.SIGKILL)
	return state, err
}
