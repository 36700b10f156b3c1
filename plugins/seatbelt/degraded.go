package seatbelt

import (
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// notes are what is always true here.
func notes(spec *shared.Spec) (list []string) {
	if spec.Home != "" {
		list = append(list, fmt.Sprintf("macOS has no mounts: %s is hidden, and HOME is a private directory with links to the binds in it", spec.Home))
	}
	switch spec.Network.Mode {
	case shared.NetworkNone:
		list = append(list, "without the network there is no loopback either: macOS cannot give a command its own")
	case shared.NetworkNames:
		list = append(list, "a proxy, in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, reaches the listed names; each command has its own port and password for it",
			"there is no loopback: macOS cannot give a command its own",
			"trustd is out of reach, because it connects to servers that certificates name: programs that verify certificates with macOS itself fail")
	}
	return append(list, "TMPDIR is a private directory; /tmp belongs to the machine and is hidden",
		"a process that leaves the command's process group outlives it, still confined")
}
