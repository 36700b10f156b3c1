package landlock

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// degradedEvents report what a command gets less, beyond the missing features. It is pure.
func degradedEvents(spec *shared.Spec, o options, abi int, d *domain) (events []shared.Event) {
	degraded := func(attribute, format string, args ...any) {
		events = append(events, shared.Event{Kind: shared.EventDegraded, Message: fmt.Sprintf(format, args...),
			Details: map[string]string{"mechanism": "landlock", "attribute": attribute}})
	}
	if spec.Network.Mode == shared.NetworkNone {
		degraded("network", "there is no loopback either: that needs a network namespace")
	}
	if o.filter.UnixSockets {
		degraded("config.unix_sockets", "commands can connect to every unix socket that you can connect to")
	} else {
		degraded("unix_sockets", "commands can make only pairs of unix sockets, because Landlock cannot prevent connections")
	}
	if abi < 2 {
		degraded("config.abi", "commands cannot rename or link files from one directory to another: that needs version 2 of Landlock, and this is %d", abi)
	}
	for _, dir := range slices.Sorted(maps.Keys(d.closed)) {
		hole := d.closed[dir]
		degraded(hole.why, "commands cannot create, rename or remove entries in %s itself, because %s is hidden (%s)", hostpath.Quote(dir), hostpath.Quote(hole.path), hole.why)
	}
	return events
}
