package sessiondir

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// lockHolders returns the processes that have a lock file open, if this one may see that.
func lockHolders(path string) (pids []int) {
	open, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, fd := range open {
		if target, err := os.Readlink(fd); err != nil || target != path {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(fd, "/")[2])
		if err == nil && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}
