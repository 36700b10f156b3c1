package session

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Bounds of the command lines in a list, in bytes: of one process, and of all together. Further
// processes have only their name.
const (
	maxLine  = 4 << 10
	maxLines = 512 << 10
)

// Processes lists those of sessions whose Host or engine is the process root.
func Processes(root int) ([]Process, error) {
	self, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	depth := len(namespacePIDs(string(self)))
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return nil, err
	}
	boot := time.Now().Add(-time.Duration(now.Nano()))
	var list []Process
	left := maxLines
	var visit func(pid int, parent []int)
	visit = func(pid int, parent []int) {
		dir := "/proc/" + strconv.Itoa(pid)
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			return // it has ended
		}
		text := string(status)
		pids := namespacePIDs(text)
		// A holder's children are inits; their children, and orphans that they adopted, belong to
		// commands.
		if len(parent) > depth && len(pids) > depth {
			cmdline, _ := proc.CommandLine(pid, min(maxLine, left))
			left -= len(cmdline)
			ticks, _ := strconv.ParseInt(proc.Stat(pid, proc.StatStart), 10, 64)
			list = append(list, Process{PID: pids[depth], HostPID: pid, Parent: parent[depth], Args: commandLine(cmdline, proc.StatusField(text, "Name")),
				Started: boot.Add(time.Duration(ticks) * proc.Tick), Memory: proc.StatusBytes(text, "VmRSS")})
		}
		for _, child := range proc.Children(pid) {
			visit(child, pids)
		}
	}
	for _, child := range proc.Children(root) {
		visit(child, nil)
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return list, nil
}

// namespacePIDs are the numbers of a process in each pid namespace, the outermost first.
func namespacePIDs(status string) (pids []int) {
	for _, f := range strings.Fields(proc.StatusField(status, "NSpid")) {
		if n, err := strconv.Atoi(f); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// commandLine is a process's, from /proc/PID/cmdline; an empty one is replaced by the process's
// name.
func commandLine(cmdline []byte, name string) []string {
	if len(cmdline) == 0 {
		return []string{"[" + name + "]"}
	}
	return strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00") // a changed title leaves empty words
}
