package cgroup

import (
	"math"
	"slices"
	"strconv"
)

// env sets what systemd-run finds its manager by, so that the launcher's own
// environment can be empty.
const env = "/usr/bin/env"

// Wrap gives the command line by which a launcher is to be started: its own, where
// no systemd is needed.
func (d Decision) Wrap(path string, args []string) (string, []string) {
	if d.via == nil {
		return path, args
	}
	// systemd-run becomes the launcher once the scope is there, so that its
	// process number and its parent are those of the launcher.
	// A scope that is not delegated is stopped as a whole, the launcher and the init with
	// it, as soon as the kernel kills one process for want of memory (OOMPolicy=).
	argv := []string{env, "XDG_RUNTIME_DIR=" + d.via.RuntimeDir, d.via.Run, "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes"}
	for _, c := range d.limits.needs() {
		if !slices.Contains(d.via.Controllers, c) {
			continue
		}
		switch c {
		case Memory:
			argv = append(argv, "--property=MemoryMax="+strconv.FormatUint(d.limits.Memory, 10), "--property=MemorySwapMax=0")
		case CPU:
			argv = append(argv, "--property=CPUQuota="+strconv.FormatUint(uint64(max(1, math.Floor(d.limits.CPUs*100))), 10)+"%")
		case PIDs:
			argv = append(argv, "--property=TasksMax="+strconv.FormatUint(d.limits.PIDs, 10))
		}
	}
	argv = append(argv, "--", path)
	if len(args) > 0 {
		argv = append(argv, args[1:]...)
	}
	return env, argv
}
