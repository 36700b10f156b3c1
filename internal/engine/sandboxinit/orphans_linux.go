package sandboxinit

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// KillOrphans kills the children of killed launchers that do not run their init yet. Call it after
// an engine was killed. It looks at every process, and again for as long as patience while launchers
// die.
//
// It is needed for one moment of bubblewrap: before its child asks to die with its parent, the
// child waits for a message from the parent. If the parent dies then, the child waits forever, as
// pid 1 of a namespace, with the command's files open. A process is such an orphan only if it is
// pid 1 of a namespace, its command line is that of a launcher of an init, and its parent is no such
// launcher. The two command lines may differ, because a launcher's child may execute another program
// before the init.
//
// An engine can start a launcher as pid 1 of a namespace. That is no orphan: it leads the session
// that the engine began for it, and bubblewrap's child does not lead one that early.
func KillOrphans(patience time.Duration) {
	for deadline := time.Now().Add(patience); ; {
		var launchers []int // that have not executed their init yet
		for _, pid := range proc.All() {
			launcher, orphan := inspect(pid)
			if launcher {
				launchers = append(launchers, pid)
			}
			if orphan {
				proc.Kill(pid, isOrphan, 0)
			}
		}
		left := time.Until(deadline)
		if left <= 0 || len(launchers) == 0 {
			return
		}
		awaitAny(launchers, left)
	}
}

func isOrphan(pid int) bool {
	_, orphan := inspect(pid)
	return orphan
}

// maxLine is longer than the command line of any launcher, in bytes. It bounds what is read of each
// process: any command on the machine chooses its own.
const maxLine = 128 << 10

// inspect reports whether a process is a launcher or an orphan.
func inspect(pid int) (launcher, orphan bool) {
	line, err := proc.CommandLine(pid, maxLine)
	if err != nil || !launchesInit(line) {
		return false, false
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false, false
	}
	parent, first := parseStatus(string(status))
	if !first {
		return true, false
	}
	above, err := proc.CommandLine(parent, maxLine)
	return false, err == nil && !launchesInit(above)
}

// launchesInit reports whether a command line, in /proc's form, is that of a launcher with [Argv] at its
// end.
func launchesInit(line []byte) bool {
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	n := len(words)
	if n < 4 || words[n-2] != initRole || !strings.HasPrefix(words[n-3], "/proc/self/fd/") {
		return false
	}
	_, ok := parseFD(words[n-1])
	return ok
}

// parseStatus returns the parent of a process, and whether the process is the first one of a pid
// namespace below this one, born there by a launcher.
func parseStatus(status string) (parent int, first bool) {
	parent, _ = strconv.Atoi(proc.StatusField(status, "PPid"))
	return parent, isOneBelow(status, "NSpid") && !isOneBelow(status, "NSsid")
}

// isOneBelow reports whether an id of a process is 1 in a pid namespace below this one.
func isOneBelow(status, field string) bool {
	ids := strings.Fields(proc.StatusField(status, field))
	return len(ids) > 1 && ids[len(ids)-1] == "1"
}

// awaitAny waits until one of the processes has ended, for at most d.
func awaitAny(pids []int, d time.Duration) {
	var fds []unix.PollFd
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			defer unix.Close(fd)
		}
	}
	if len(fds) == len(pids) { // else one has already ended
		unix.Poll(fds, int(max(d.Milliseconds(), 1)))
	}
}
