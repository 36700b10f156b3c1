package cmdengine

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// awaitGroup waits until everybody in a group that was killed has ended. Zombies
// have: who has to reap them may take its time.
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
				continue // gone since
			}
			// Looked at again: the number may have passed to a process that will live long.
			if inGroup(pid, pgid) {
				ended(fd, int(max(0, time.Until(deadline).Milliseconds())))
			}
			unix.Close(fd)
		}
	}
}

// members are the processes of a group that have not ended.
func members(pgid int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && inGroup(pid, pgid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func inGroup(pid, pgid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state, group, ok := parseStat(string(stat))
	return ok && group == pgid && state != "Z" && state != "X"
}

// parseStat reads state and process group out of a /proc/PID/stat. The name before
// them is the process's own choice, and may hold parentheses and spaces.
func parseStat(stat string) (state string, pgid int, ok bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 {
		return "", 0, false
	}
	pgid, err := strconv.Atoi(fields[2])
	return fields[0], pgid, err == nil
}
