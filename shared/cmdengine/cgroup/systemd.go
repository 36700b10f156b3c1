package cgroup

import (
	"math"
	"slices"
	"strconv"
)

// Wrap gives the command line and the environment by which a launcher is to be
// started. Where no systemd is needed they are its own, and nothing.
func (d Decision) Wrap(path string, args []string) (string, []string, []string) {
	if d.via == nil {
		return path, args, []string{}
	}
	// systemd-run becomes the launcher once the scope is there, so that its
	// process number and its parent are those of the launcher.
	argv := []string{d.via.Run, "--user", "--scope", "--quiet", "--collect"}
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
	return d.via.Run, argv, []string{"XDG_RUNTIME_DIR=" + d.via.RuntimeDir}
}
