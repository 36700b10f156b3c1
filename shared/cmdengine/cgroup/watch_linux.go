package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Watch counts what the kernel kills for want of memory in a scope of systemd's,
// which is gone as soon as the last process in it.
type Watch struct{ events *os.File }

// Watch begins with a launcher that is known to run: until then it may not be in
// its scope. It is nil where no scope holds the memory.
func (d Decision) Watch(launcher int) *Watch {
	if d.via == nil || d.Mechanism(Memory) == "" {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	groups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(launcher), "cgroup"))
	if err != nil {
		return nil
	}
	for _, tree := range hierarchies(string(mounts), string(groups)) {
		if tree.version != 2 || !strings.HasSuffix(tree.own, ".scope") {
			continue
		}
		if f, err := os.Open(filepath.Join(tree.own, "memory.events")); err == nil {
			return &Watch{f}
		}
	}
	return nil
}

// Killed is the number of processes so far. It is zero once the scope is gone.
func (w *Watch) Killed() uint64 {
	if w == nil {
		return 0
	}
	var text [1024]byte
	n, _ := w.events.ReadAt(text[:], 0)
	return oomKills(string(text[:n]))
}

// Close ends it.
func (w *Watch) Close() {
	if w != nil {
		w.events.Close()
	}
}

// oomKills finds the count in memory.events of version 2, or memory.oom_control of version 1.
func oomKills(text string) uint64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}
