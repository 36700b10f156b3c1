package cmdengine

import (
	"cmp"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// How well a limit is enforced, as in [shared.EventLimit].
const (
	enforced     = "enforced"
	approximated = "approximated"
	notEnforced  = "not enforced"
)

// holding is the mechanism of one limit.
type holding struct {
	limit     string // as in a definition
	mechanism string // may be empty
}

func (h holding) event() shared.Event { return shared.LimitEvent(h.limit, h.mechanism, h.hold()) }

// hold is how well the mechanism enforces the limit.
func (h holding) hold() string {
	switch h.mechanism {
	case "":
		return notEnforced
	case rlimitMemory, rlimitPIDs:
		return approximated
	}
	return enforced
}

// Resources of a group that the launcher and the init need: with less they could not start, or the
// kernel would end them first.
const (
	leastMemory = 16 << 20
	leastPIDs   = 16
)

// tracerThreads is about how many threads a tracer and its children have, beyond the limit of the
// command.
const tracerThreads = 6

// holdings returns the mechanisms that bound the whole tree of a command that runs as uid.
func holdings(l shared.Limits, d cgroup.Decision, uid uint32) (out []holding) {
	add := func(set bool, limit string, c cgroup.Controller, rlimit string) {
		if set {
			out = append(out, holding{limit, cmp.Or(d.Mechanism(c), rlimit)})
		}
	}
	add(l.Memory > 0, "memory", cgroup.Memory, rlimitMemory)
	add(l.CPUs > 0, "cpus", cgroup.CPU, "")
	processes := rlimitPIDs
	if uid == 0 {
		processes = "" // the kernel exempts uid 0
	}
	add(l.PIDs > 0, "pids", cgroup.PIDs, processes)
	return out
}

const (
	rlimitMemory = "RLIMIT_DATA"
	rlimitPIDs   = "RLIMIT_NPROC"
)

// admitLimits refuses limits that are required and not enforced, or too small for any command. A
// limit of each single process is not enforced: two processes exceed it.
func admitLimits(l shared.Limits, holdings []holding) error {
	for _, h := range holdings {
		attribute := "limits." + h.limit
		switch whole := h.hold() == enforced; {
		case !whole && l.BestEffort:
		case !whole:
			accepted := "it is not enforced"
			if h.mechanism != "" {
				accepted = "each process has the limit, not all together"
			}
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: attribute, Message: "this machine cannot enforce it",
				Hint: `with enforce = "best_effort", ` + accepted + ". A full limit needs root, a control group of yours, or a systemd session"}
		case h.limit == "memory" && l.Memory < leastMemory:
			return invalid(attribute, "", "%d bytes are too few: it must be at least %dMiB", l.Memory, leastMemory>>20)
		case h.limit == "pids" && l.PIDs < leastPIDs:
			return invalid(attribute, "", "%d is too few, because threads of the launcher and the init count: it must be at least %d", l.PIDs, leastPIDs)
		}
	}
	return nil
}

// approximations are the rlimits in place of limits that no group enforces.
func approximations(l shared.Limits, holdings []holding) []sandboxinit.Rlimit {
	var out []sandboxinit.Rlimit
	for _, h := range holdings {
		switch h.mechanism {
		case rlimitMemory:
			out = append(out, sandboxinit.Rlimit{Resource: unix.RLIMIT_DATA, Soft: l.Memory, Hard: l.Memory})
		case rlimitPIDs:
			out = append(out, sandboxinit.Rlimit{Resource: unix.RLIMIT_NPROC, Soft: l.PIDs, Hard: l.PIDs})
		}
	}
	return out
}
