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

// Processes lists those of sessions whose Host or engine is the process root.
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
		// A holder's children are inits; their children, and orphans that they adopted, belong to
		// commands.
		if len(parent.pids) > depth && len(s.pids) > depth {
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			stat, _ := os.ReadFile(dir + "/stat")
			list = append(list, Process{PID: s.pids[depth], HostPID: pid, Parent: parent.pids[depth], Args: commandLine(cmdline, s.name),
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

// status is the content of /proc/PID/status.
type status struct {
	pids   []int // in each pid namespace, the outermost first
	name   string
	memory int64
}

func parseStatus(text string) (s status) {
	s.name = proc.StatusField(text, "Name")
	kib, _ := strconv.ParseInt(strings.TrimSuffix(proc.StatusField(text, "VmRSS"), " kB"), 10, 64)
	s.memory = kib << 10
	for _, f := range strings.Fields(proc.StatusField(text, "NSpid")) {
		if n, err := strconv.Atoi(f); err == nil {
			s.pids = append(s.pids, n)
		}
	}
	return s
}

// sinceBoot is the start time of a process, from /proc/PID/stat.
func sinceBoot(stat []byte) time.Duration {
	ticks, _ := strconv.ParseInt(proc.StatField(string(stat), proc.StatStart), 10, 64)
	return time.Duration(ticks) * proc.Tick
}

// commandLine is a process's, from /proc/PID/cmdline; an empty one is replaced by the process's
// name.
func commandLine(cmdline []byte, name string) []string {
	if len(cmdline) == 0 {
		return []string{"[" + name + "]"}
	}
	return strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00") // a changed title leaves empty words
}
