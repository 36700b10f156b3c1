package mountplan

import (
	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/shared"
)

// Writable lists what commands can write to, if the root directory is the host's, as in other
// sandboxes. It is empty if the root is the sandbox's own.
func Writable(ops []holder.Op) (list []string) {
	host := false
	for _, o := range ops {
		switch o.Kind {
		case holder.ReadOnlyBind:
			host = host || o.Dest == "/"
		case holder.Bind, holder.Memory, holder.Processes, holder.Devices, holder.Overlay, holder.Home:
			list = append(list, o.Dest)
		}
	}
	if !host {
		return nil
	}
	return list
}

// Planned is the list for people.
func Planned(ops []holder.Op) []shared.PlannedMount {
	mounts := make([]shared.PlannedMount, len(ops))
	for i, o := range ops {
		mounts[i] = shared.PlannedMount{Op: o.Kind.String(), Source: o.Source, Destination: o.Dest, Why: o.Why}
		if o.Kind == holder.Text {
			mounts[i].Source = ""
		}
	}
	return mounts
}
