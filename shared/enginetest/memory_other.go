//go:build !linux

package enginetest

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// lastSignal is the highest number of a signal.
const lastSignal = 31

// peakMemory is what a process has in memory now: nothing tells of its past here.
func peakMemory(pid int) (int64, error) {
	out, err := exec.Command("/bin/ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return kib << 10, err
}

// holdings would take a program for each question here.
func holdings(int) (map[string]int, error) {
	return nil, &absentError{"what a process holds cannot be counted here"}
}
