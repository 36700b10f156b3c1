package sandboxinit

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// killChildren is for an init that is not pid 1, but is a subreaper: the
// children of what it kills become its own before it learns of the death, so
// doing this again after each death reaches all descendants in the end.
func killChildren() {
	// Most often there are none, which need not be looked for in all of /proc.
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == syscall.ECHILD {
		return
	}
	for _, pid := range childrenOf(os.Getpid()) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// childrenOf reads the parent of each process, as not every kernel has
// /proc/PID/task/TID/children.
func childrenOf(parent int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var children []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // ended meanwhile
		}
		// pid (comm) state ppid: comm may hold anything, ")" and blanks too.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}
