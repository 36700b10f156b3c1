// Package containerinit is what runs in a container that a daemon has started, until it
// becomes the init of package sandboxinit. A daemon hands no descriptors down: it fetches
// them over a socket. It also keeps a container's namespace for one command after
// another, and gives a new volume to its user.
package containerinit

import (
	"encoding/binary"
	"os"
	"strconv"
	"syscall"
)

const (
	// fetchArg is argv[1] of an init that fetches its descriptors.
	fetchArg = "sbxhost-init-fetch"
	// keepArg is argv[1] of a pid 1 that fetches those of one command after another.
	keepArg = "sbxhost-init-keep"
	// stayArg is argv[1] of a pid 1 that outlives who has started it.
	stayArg = "sbxhost-init-stay"
	// ownArg is argv[1] of a process that gives directories to somebody.
	ownArg = "sbxhost-init-own"
)

// Requested reports whether args are those of a process that is to be one of these.
func Requested(args []string) bool {
	if len(args) < 3 {
		return false
	}
	switch args[1] {
	case fetchArg, keepArg, stayArg:
		return len(args) == 3
	case ownArg:
		return len(args) > 3
	}
	return false
}

// Unreachable is the exit status of an init that found nobody at the socket it
// was to fetch its descriptors from.
const Unreachable = 123

// FetchArgv is what follows the executable's name on the command line of an init
// whose launcher cannot hand descriptors down, as a daemon cannot. The init
// connects to the unix socket at that path inside, reads one [Handover] and
// then is the init. It never looks at the path again: take the
// socket away once it has connected, and the command cannot find it.
func FetchArgv(socket string) []string { return []string{fetchArg, socket} }

// KeepArgv is FetchArgv for a pid 1 that keeps its namespaces for as long as the
// connection lasts. It reads any number of handovers and starts an init for
// each, of which it is the parent. Once one has ended, it sends the handover's
// number back ([Ended]); where none is left, it has killed before whatever else
// there was in the namespace and has seen it end. The end of the connection
// ends it, and with it the namespace.
func KeepArgv(socket string) []string { return []string{keepArg, socket} }

// HandoverSize is the length of the messages of both directions.
const HandoverSize = 8

// Handover gives the message that hands over the init's end of a command's control socket, and the
// control data that belongs to its first byte. The file must stay open until
// both are sent.
func Handover(number uint64, initEnd *os.File) (message, rights []byte) {
	return binary.BigEndian.AppendUint64(nil, number), syscall.UnixRights(int(initEnd.Fd()))
}

// Ended decodes what a keeper sends, HandoverSize bytes: the number of the
// handover that it is done with.
func Ended(message []byte) uint64 { return binary.BigEndian.Uint64(message) }

// StayArgv is KeepArgv for a pid 1 that outlives the connection, so that another
// engine process finds it again. The first message over the connection is
// [Settlement]. From then on it takes connections at that socket, each like that of
// KeepArgv. Each command still ends with the engine that has started it; pid 1
// ends, and with it the namespace, once the socket's file is gone and no command
// runs.
func StayArgv(socket string) []string { return []string{stayArg, socket} }

// Settlement gives the message with the socket at which a pid 1 of StayArgv is to
// be found: one that listens, in blocking mode, and its file, opened with O_PATH.
// The file must be out of the commands' reach, and readable for who pid 1 runs as.
func Settlement(listener, file *os.File) (message, rights []byte) {
	return binary.BigEndian.AppendUint64(nil, 0), syscall.UnixRights(int(listener.Fd()), int(file.Fd()))
}

// An Owner is who [OwnArgv] gives directories to.
type Owner struct {
	UID, GID uint32 // as the init sees them
	// Unknown says that the numbers are not known: everybody may write there.
	Unknown bool
}

// OwnArgv is what follows the executable's name on the command line of a process
// that gives directories inside to owner and ends, with 0 if it could. A
// daemon's new volume belongs to root, and an image need not have a program that
// changes that. It takes CAP_CHOWN, and to be root for Anybody. What lies in the
// directories is left as it is.
func OwnArgv(owner Owner, dirs ...string) []string {
	return append([]string{ownArg, owner.String()}, dirs...)
}

const anybody = "anybody"

// String is how it stands on a command line.
func (o Owner) String() string {
	if o.Unknown {
		return anybody
	}
	return strconv.FormatUint(uint64(o.UID), 10) + ":" + strconv.FormatUint(uint64(o.GID), 10)
}
