package cmdengine

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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

// awaitGroup waits until all processes of a killed group have ended. It kills none: by now the number
// may be that of another group. It does not wait for zombies, which their parents must reap.
func awaitGroup(pgid int) {
	deadline := time.Now().Add(reapPatience)
	for time.Now().Before(deadline) {
		alive := members(pgid)
		if len(alive) == 0 {
			return
		}
		for _, pid := range alive {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue // it has ended
			}
			// Check again: the number may belong to another process now, which may live long.
			if inGroup(pid, pgid) {
				proc.Ended(fd, time.Until(deadline))
			}
			unix.Close(fd)
		}
	}
}

// members are the processes of a group that have not ended.
func members(pgid int) []int {
	return slices.DeleteFunc(proc.All(), func(pid int) bool { return !inGroup(pid, pgid) })
}

func inGroup(pid, pgid int) bool {
	state := proc.Stat(pid, proc.StatState) // a zombie has ended, even if its parent does not know yet
	return state != "Z" && state != "X" && proc.Stat(pid, proc.StatGroup) == strconv.Itoa(pgid)
}

// exiting reports whether a process has ended, or can do nothing any more: a pid 1 that was killed waits
// for the parents of all its zombies.
func exiting(pid int) bool {
	const flag = 0x4 // PF_EXITING
	flags, err := strconv.Atoi(proc.Stat(pid, proc.StatFlags))
	return err != nil || flags&flag != 0
}
