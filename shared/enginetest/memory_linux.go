package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// lastSignal is the highest number of a signal.
const lastSignal = 64

// peakMemory is the most that a process ever had in memory at once.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(peak), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no memory: it has ended", pid)
}

// holdings counts what a process has of the system, by what it is.
func holdings(pid int) (map[string]int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, &absentError{"descriptors of the engine's process cannot be counted: " + err.Error()}
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := 0
	for _, p := range processes {
		text, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue // it is none, or has ended
		}
		// The name, in parentheses, may have any characters in it.
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			children++
		}
	}
	return map[string]int{"open descriptors": len(open), "child processes": children}, nil
}
