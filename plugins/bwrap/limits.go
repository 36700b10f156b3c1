package bwrap

import (
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

const (
	tempSizeMax = 4 << 30
	tempSizeMin = 64 << 20
)

// tempSize is the cap of each private file system. The kernel's own default, half
// of the memory for each, would let two of them take all of it.
func tempSize(f *facts, spec *shared.Spec) uint64 {
	switch {
	case spec.Limits.TempSize > 0:
		return spec.Limits.TempSize
	case f.memory > 0:
		return max(min(f.memory/4, tempSizeMax), tempSizeMin)
	}
	return tempSizeMin
}

// events tells what a command gets less of than was asked for, and what holds its
// limits.
func events(f *facts, h *held, spec *shared.Spec) []shared.Event {
	out := sessionEvents(h, spec)
	limit := func(set bool, name, mechanism, hold string) {
		if !set {
			return
		}
		message := fmt.Sprintf("limits.%s is %s", name, hold)
		if mechanism != "" {
			message += " by " + mechanism
		}
		out = append(out, shared.Event{Kind: shared.EventLimit, Message: message,
			Details: map[string]string{"limit": name, "mechanism": mechanism, "hold": hold}})
	}
	uid := f.uid
	if spec.User != nil {
		uid = spec.User.UID
	}
	l := spec.Limits
	limit(l.Memory > 0, "memory", "RLIMIT_AS", "approximated")
	limit(l.CPUs > 0, "cpus", "", "not held")
	if uid == 0 {
		// The kernel exempts uid 0 from RLIMIT_NPROC.
		limit(l.PIDs > 0, "pids", "", "not held")
	} else {
		limit(l.PIDs > 0, "pids", "RLIMIT_NPROC", "approximated")
	}
	limit(l.OpenFiles > 0, "open_files", "RLIMIT_NOFILE", "held")
	limit(l.TempSize > 0, "temp_size", "tmpfs size", "held")
	return out
}

// notes are the events as a plan shows them.
func notes(events []shared.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Message)
	}
	return out
}
