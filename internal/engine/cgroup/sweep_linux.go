package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Sweep removes the groups whose owners have died, with their processes.
func (h Host) Sweep() {
	for _, p := range h.Places {
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
				continue
			}
			dir := filepath.Join(p.Dir, e.Name())
			f, err := lock(dir)
			if err != nil {
				continue // in use, or another user's
			}
			empty(dir)
			f.Close()
		}
	}
}

const (
	// rounds is how often a removal is tried: for about a second.
	rounds = 20
	// patience is how long one process may take to end.
	patience = 2 * time.Second
)

// empty ends the processes of a group, and removes it.
func empty(dir string) {
	for round := range rounds {
		if err := unix.Rmdir(dir); err != unix.EBUSY && err != unix.EINTR {
			return
		}
		if end(dir) == 0 {
			// The kernel releases the dead a moment after they disappear, and, in version 1, no
			// event reports it.
			unix.Poll(nil, 1<<min(round, 6))
		}
	}
}

// end kills the processes of a group, waits until they are gone, and returns their number.
func end(dir string) (ended int) {
	in := func(pid int) bool { return has(dir, pid) }
	for _, id := range strings.Fields(read(dir, "cgroup.procs")) {
		// Zero is a process of another pid namespace.
		if pid, err := strconv.Atoi(id); err == nil && pid > 0 && proc.Kill(pid, in, patience) {
			ended++
		}
	}
	return ended
}
