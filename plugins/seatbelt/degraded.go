package seatbelt

import (
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// notes are what is always so here.
func notes(spec *shared.Spec) (list []string) {
	if spec.Home != "" {
		list = append(list, fmt.Sprintf("macOS has no mounts: %s is hidden, and HOME is a private directory with links to what is bound in it", spec.Home))
	}
	switch spec.Network.Mode {
	case shared.NetworkNone:
		list = append(list, "without the network there is no loopback either: macOS has none of a command's own")
	case shared.NetworkNames:
		list = append(list, "listed names are reached by a proxy, which HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name; each command has its own port and password for it",
			"there is no loopback: macOS has none of a command's own",
			"trustd is out of reach, since it fetches what certificates name: programs that verify certificates by macOS itself fail")
	}
	return append(list, "TMPDIR is a private directory; /tmp is the machine's and hidden",
		"a process that leaves the command's process group outlives it, still confined")
}
