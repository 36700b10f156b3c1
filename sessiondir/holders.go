//go:build unix

package sessiondir

import (
	"slices"
	"strconv"
	"strings"
)

// parseLocks finds in the text of /proc/locks the processes that have locked
// the inode ino by flock. The device is not compared: a file of btrfs or of an
// overlay has another one there than stat gives.
//
//	1: FLOCK  ADVISORY  READ  4321 08:01:131074 0 EOF
//	1: -> FLOCK  ADVISORY  WRITE 4322 08:01:131074 0 EOF     (waits)
func parseLocks(text string, ino uint64) []int {
	var pids []int
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		if err != nil || pid <= 0 { // -1: another pid namespace's
			continue
		}
		if at := strings.LastIndexByte(f[5], ':'); f[5][at+1:] == strconv.FormatUint(ino, 10) && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}
