package cmdengine

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// reap kills the rest of the group while its leader, a zombie, still holds the group's number.
func (r *directRun) reap(pid int) (*os.ProcessState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	syscall.Kill(-pid, syscall.SIGKILL)
	state, err := r.process.Wait()
	r.reaped = true
	return state, err
}

// lives reports whether a process of a killed group has not ended. Zombies do not count: their
// parents must reap them.
func lives(pgid int) bool {
	return slices.ContainsFunc(proc.All(), func(pid int) bool {
		return proc.Stat(pid, proc.StatGroup) == strconv.Itoa(pgid) && !over(pid)
	})
}

// over reports whether a process has ended, even if its parent does not know yet.
func over(pid int) bool {
	state := proc.Stat(pid, proc.StatState)
	return state == "" || state == "Z" || state == "X"
}
