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
	if spec.Network.Mode == shared.NetworkNone {
		list = append(list, "without the network there is no loopback either: macOS has none of a command's own")
	}
	return append(list, "TMPDIR is a private directory; /tmp is the machine's and hidden",
		"a process that leaves the command's process group outlives it, still confined")
}
