package landlock

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// degradedEvents are what a command gets less of by what the features do not say. It is pure.
func degradedEvents(spec *shared.Spec, o options, abi int, d *domain) (events []shared.Event) {
	degraded := func(attribute, format string, args ...any) {
		events = append(events, shared.Event{Kind: shared.EventDegraded, Message: fmt.Sprintf(format, args...),
			Details: map[string]string{"mechanism": "landlock", "attribute": attribute}})
	}
	if spec.Network.Mode == shared.NetworkNone {
		degraded("network", "there is no loopback either: a network of its own takes a namespace")
	}
	switch {
	case o.filter.UnixSockets:
		degraded("config.unix_sockets", "every unix socket is within reach that you can connect to yourself")
	default:
		degraded("unix_sockets", "no unix sockets can be made, but for pairs: Landlock keeps nobody from connecting to one")
	}
	if abi < 2 {
		degraded("config.abi", "nothing can be renamed or linked from one directory to another: that takes version 2 of Landlock, and this is %d", abi)
	}
	for _, dir := range slices.Sorted(maps.Keys(d.closed)) {
		hole := d.closed[dir]
		degraded(hole.why, "nothing can be created, renamed or removed in %s itself, since %s is hidden (%s)", hostpath.Quote(dir), hostpath.Quote(hole.path), hole.why)
	}
	return events
}
