// Package containerinit runs in a container that a daemon has started, until it becomes the init of
// package sandboxinit. A daemon passes on no descriptors, so it fetches them over a socket.
package containerinit

import (
	"os"
	"syscall"
)

// fetchArg is argv[1] of an init that fetches its descriptors.
const fetchArg = "sbxhost-init-fetch"

// Requested reports whether args are those of such an init.
func Requested(args []string) bool { return len(args) == 3 && args[1] == fetchArg }

// Unreachable is the exit status of an init that found nobody at the socket for its descriptors.
const Unreachable = 123

// FetchArgv is the command line after the executable's name of an init whose launcher, such as a
// daemon, cannot pass descriptors. The init connects to the unix socket at that path inside, reads
// one [Handover] and then is the init. It never looks at the path again: remove the socket after
// the connection, and the command cannot find it.
func FetchArgv(socket string) []string { return []string{fetchArg, socket} }

// Handover returns the message that passes the init's end of a command's control socket, and the
// control data of its only byte. The file must stay open until both are sent.
func Handover(initEnd *os.File) (message, rights []byte) {
	return []byte{0}, syscall.UnixRights(int(initEnd.Fd()))
}
