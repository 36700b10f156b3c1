package session

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared/proc"
)

// Processes lists those of sessions whose Host, or whose engine, is the process root.
func Processes(root int) ([]Process, error) {
	self, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	depth := len(parseStatus(string(self)).pids)
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return nil, err
	}
	boot := time.Now().Add(-time.Duration(now.Nano()))
	var list []Process
	var visit func(pid int, parent status)
	visit = func(pid int, parent status) {
		dir := "/proc/" + strconv.Itoa(pid)
		text, err := os.ReadFile(dir + "/status")
		if err != nil {
			return // it has ended
		}
		s := parseStatus(string(text))
		// What a holder has started is an init; what those have, or have taken in, is a command's.
		if len(parent.pids) > depth && len(s.pids) > depth {
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			stat, _ := os.ReadFile(dir + "/stat")
			list = append(list, Process{PID: s.pids[depth], HostPID: pid, Parent: parent.pids[depth], Args: words(cmdline, s.name),
				Started: boot.Add(sinceBoot(stat)), Memory: s.memory})
		}
		for _, child := range proc.Children(pid) {
			visit(child, s)
		}
	}
	for _, child := range proc.Children(root) {
		visit(child, status{})
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return list, nil
}
