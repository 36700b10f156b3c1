//go:build unix

package session

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// status is what /proc/PID/status says.
type status struct {
	pids   []int // in each pid namespace, the outermost first
	parent int   // in the outermost
	name   string
	memory int64
}

func parseStatus(text string) (s status) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case len(fields) == 0:
		case key == "Name":
			s.name = strings.TrimSpace(value)
		case key == "PPid":
			s.parent, _ = strconv.Atoi(fields[0])
		case key == "VmRSS":
			kib, _ := strconv.ParseInt(fields[0], 10, 64)
			s.memory = kib << 10
		case key == "NSpid":
			for _, f := range fields {
				if n, err := strconv.Atoi(f); err == nil {
					s.pids = append(s.pids, n)
				}
			}
		}
	}
	return s
}

// clockTicks is the kernel's USER_HZ, the same on every machine that Go runs on.
const clockTicks = 100

// sinceBoot is when a process was started, by /proc/PID/stat.
func sinceBoot(stat []byte) time.Duration {
	// Behind the name, which may have anything in it, the fields count from the third.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start = 22 - 3
	if len(fields) <= start {
		return 0
	}
	ticks, _ := strconv.ParseInt(string(fields[start]), 10, 64)
	return time.Duration(ticks) * time.Second / clockTicks
}

// words are a process's, by /proc/PID/cmdline; one that has none is told by its name.
func words(cmdline []byte, name string) []string {
	if len(cmdline) == 0 {
		return []string{"[" + name + "]"}
	}
	return strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
}
