package mountplan

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
func tempSize(f *Facts, spec *shared.Spec) uint64 {
	switch {
	case spec.Limits.TempSize > 0:
		return spec.Limits.TempSize
	case f.memory > 0:
		return max(min(f.memory/4, tempSizeMax), tempSizeMin)
	}
	return tempSizeMin
}

// Events tells what a command gets less of than was asked for, and what holds the
// limits that are this engine's own matter.
func Events(h *Held, spec *shared.Spec) []shared.Event {
	out := sessionEvents(h, spec)
	limit := func(set bool, name, mechanism string) {
		if set {
			out = append(out, shared.Event{Kind: shared.EventLimit, Message: fmt.Sprintf("limits.%s is held by %s", name, mechanism),
				Details: map[string]string{"limit": name, "mechanism": mechanism, "hold": "held"}})
		}
	}
	limit(spec.Limits.OpenFiles > 0, "open_files", "RLIMIT_NOFILE")
	limit(spec.Limits.TempSize > 0, "temp_size", "tmpfs size")
	return out
}

// Notes are the events as a plan shows them.
func Notes(events []shared.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Message)
	}
	return out
}
