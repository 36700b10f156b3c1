package sandboxinit

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared/proc"
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
func childrenOf(parent int) (children []int) {
	for _, pid := range proc.All() {
		if proc.Stat(pid, proc.StatParent) == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}
