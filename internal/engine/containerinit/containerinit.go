// Package containerinit runs in a container that a daemon has started, until it becomes the init of
// package sandboxinit. A daemon passes on no descriptors, so it fetches them over a socket. It also
// gives a new volume to its user.
package containerinit

import (
	"os"
	"syscall"
)

const (
	// fetchArg is argv[1] of an init that fetches its descriptors.
	fetchArg = "sbxhost-init-fetch"
	// ownArg is argv[1] of a process that gives directories to a user.
	ownArg = "sbxhost-init-own"
)

// Requested reports whether args are those of one of these processes.
func Requested(args []string) bool {
	if len(args) < 3 {
		return false
	}
	switch args[1] {
	case fetchArg:
		return len(args) == 3
	case ownArg:
		return len(args) > 3
	}
	return false
}

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

// Anybody, in place of an owner, lets everybody write.
const Anybody = "anybody"

// OwnArgv is the command line after the executable's name of a process that gives directories
// inside to an owner, "UID:GID" as the init sees them, and exits, with 0 if it could. A daemon's new
// volume belongs to root, and an image may have no program that changes that. It needs CAP_CHOWN,
// and root for [Anybody]. It does not change the directories' contents.
func OwnArgv(owner string, dirs ...string) []string { return append([]string{ownArg, owner}, dirs...) }
