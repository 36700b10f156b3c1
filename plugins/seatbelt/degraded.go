package seatbelt

import (
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// events tell what of a Spec is held less well than its author may expect.
func events(spec *shared.Spec) (list []shared.Event) {
	degraded := func(attribute, message string) {
		list = append(list, shared.Event{Kind: shared.EventDegraded, Message: message, Details: map[string]string{"attribute": attribute}})
	}
	for _, m := range spec.Table {
		if m.Access == shared.Overlay {
			degraded(m.Why, fmt.Sprintf("macOS has no overlays: %s is read-only", m.Path))
		}
	}
	l := spec.Limits
	for _, limit := range [...]struct {
		set  bool
		name string
	}{
		{l.Memory > 0, "memory"}, {l.CPUs > 0, "cpus"}, {l.PIDs > 0, "pids"},
		{l.OpenFiles > 0, "open_files"}, {l.TempSize > 0, "temp_size"},
	} {
		if limit.set {
			list = append(list, shared.Event{Kind: shared.EventLimit,
				Message: "nothing on macOS holds limits." + limit.name,
				Details: map[string]string{"limit": limit.name, "mechanism": "none", "hold": "not held"}})
		}
	}
	return list
}

// notes are the same for a plan, and what is always so here.
func notes(spec *shared.Spec) (list []string) {
	for _, e := range events(spec) {
		list = append(list, e.Message)
	}
	if spec.Home != "" {
		list = append(list, fmt.Sprintf("macOS has no mounts: %s is hidden, and HOME is a private directory with links to what is bound in it", spec.Home))
	}
	if spec.Network.Mode == shared.NetworkNone {
		list = append(list, "without the network there is no loopback either: macOS has none of a command's own")
	}
	return append(list, "TMPDIR is a private directory; /tmp is the machine's and hidden",
		"a process that leaves the command's process group outlives it, still confined")
}
