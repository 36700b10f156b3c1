// Package orphans kills what a launcher that was killed leaves of a sandbox.
package orphans

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Kill kills what launchers that were killed have left of sandboxes in
// which the init does not run yet, and reports how many there were. It is for
// whoever finds that an engine was killed: it looks at every process, for as
// long as patience lets launchers take that are dying.
//
// It is needed for one moment of bubblewrap's: between the birth of its child
// and the moment at which that asks to die with its parent, the child waits for
// a word from the parent. Where the parent dies then, it waits for ever, as pid 1
// of a namespace, with the command's files open. A process is taken for one
// only if it is pid 1 of a namespace, its command line is that of a launcher of
// an init, and its parent is no such launcher. The two lines need not be equal: what
// a launcher starts may execute another one on the way to the init. An engine can
// start a launcher as pid 1 of a namespace. Such a launcher is no orphan: it leads the
// session that the engine began for it, which bubblewrap's child does not do so early.
func Kill(patience time.Duration) {
	for deadline := time.Now().Add(patience); ; {
		launchers, orphans := findLaunchers()
		for _, pid := range orphans {
			end(pid, func(pid int) bool {
				_, orphan := look(pid)
				return orphan
			})
		}
		left := time.Until(deadline)
		if left <= 0 || len(launchers) == 0 {
			return
		}
		awaitAny(launchers, left)
	}
}

// end kills a process if it is one of these still, of which its number is looked at again while it
// is held: it may have ended since, and the number be another's.
func end(pid int, is func(pid int) bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if is(pid) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// findLaunchers gives the launchers that have not executed their init yet, or
// never will, and what other launchers have left.
func findLaunchers() (launchers, orphans []int) {
	for _, pid := range proc.All() {
		switch launcher, orphan := look(pid); {
		case launcher:
			launchers = append(launchers, pid)
		case orphan:
			orphans = append(orphans, pid)
		}
	}
	return launchers, orphans
}

// look reports whether a process is one or the other.
func look(pid int) (launcher, orphan bool) {
	name := strconv.Itoa(pid)
	line, err := os.ReadFile("/proc/" + name + "/cmdline")
	if err != nil || !launchesInit(line) {
		return false, false
	}
	status, err := os.ReadFile("/proc/" + name + "/status")
	if err != nil {
		return false, false
	}
	parent, first := parseStatus(string(status))
	if !first {
		return true, false
	}
	above, err := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/cmdline")
	return false, err == nil && !launchesInit(above)
}

// launchesInit reports whether a command line, as /proc has it, is a launcher's.
func launchesInit(line []byte) bool {
	return sandboxinit.IsLauncher(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"))
}

// parseStatus gives the parent of a process and whether the process is the
// first one of a pid namespace below this one, born there by a launcher.
func parseStatus(status string) (parent int, first bool) {
	parent, _ = strconv.Atoi(proc.StatusField(status, "PPid"))
	return parent, isOneBelow(status, "NSpid") && !isOneBelow(status, "NSsid")
}

// isOneBelow reports whether an id of a process is 1 in a pid namespace below this one.
func isOneBelow(status, field string) bool {
	ids := strings.Fields(proc.StatusField(status, field))
	return len(ids) > 1 && ids[len(ids)-1] == "1"
}

// awaitAny waits until one of the processes has ended, at the latest after d.
func awaitAny(pids []int, d time.Duration) {
	var fds []unix.PollFd
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			defer unix.Close(fd)
		}
	}
	if len(fds) == len(pids) { // else one has ended already
		unix.Poll(fds, int(max(d.Milliseconds(), 1)))
	}
}
