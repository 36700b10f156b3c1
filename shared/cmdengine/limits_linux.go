package cmdengine

import (
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// approximations are the rlimits that stand in for what no group holds.
func approximations(l shared.Limits, holdings []holding) []sandboxinit.Rlimit {
	var out []sandboxinit.Rlimit
	for _, h := range holdings {
		switch {
		case h.mechanism == rlimitMemory:
			out = append(out, sandboxinit.Rlimit{Resource: unix.RLIMIT_DATA, Soft: l.Memory, Hard: l.Memory})
		case h.mechanism == rlimitPIDs:
			out = append(out, sandboxinit.Rlimit{Resource: unix.RLIMIT_NPROC, Soft: l.PIDs, Hard: l.PIDs})
		}
	}
	return out
}
