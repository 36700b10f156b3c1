package cmdengine

import (
	"os"
	"syscall"
)

// reap kills what is left of the group while its leader, a zombie, still holds
// the group's number.
func (r *directRun) reap(pid int) (*os.ProcessState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	syscall.Kill(-pid, syscall.SIGKILL)
	state, err := r.process.Wait()
	r.reaped = true
	return state, err
}
