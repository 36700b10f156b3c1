package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Children are those of all threads of a process; none if it has ended.
func Children(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, _ := os.ReadDir(dir)
	var out []int
	for _, task := range tasks {
		list, _ := os.ReadFile(filepath.Join(dir, task.Name(), "children"))
		for _, child := range strings.Fields(string(list)) {
			if n, err := strconv.Atoi(child); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// Stopped reports whether a process has got SIGSTOP, or another such signal. One that
// is being traced has not.
func Stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // a name can hold anything
	return len(state) > 0 && state[0] == "T"
}

// KillStoppedForks kills the children of a process that were stopped before they could
// execute anything, and with a depth above 1 those of its children. Go forks like vfork: the parent's thread
// waits for such a child, does not know its number, and would leave it behind, with
// every descriptor that the parent had.
func KillStoppedForks(parent, depth int) {
	for _, child := range Children(parent) {
		if fd, err := unix.PidfdOpen(child, 0); err == nil {
			if Stopped(child) && isFork(child, parent) {
				unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			unix.Close(fd)
		}
		if depth > 1 {
			KillStoppedForks(child, depth-1)
		}
	}
}

// isFork reports whether a child has the memory of its parent still, as far as its
// command line tells.
func isFork(child, parent int) bool {
	theirs, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline")
	ours, err2 := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/cmdline")
	return err == nil && err2 == nil && bytes.Equal(theirs, ours)
}
