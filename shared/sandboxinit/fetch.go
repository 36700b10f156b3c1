package sandboxinit

import (
	"encoding/binary"
	"os"
	"syscall"
)

const (
	// fetchArg is argv[1] of an init that fetches its descriptors.
	fetchArg = "sbxhost-init-fetch"
	// keepArg is argv[1] of a pid 1 that fetches those of one command after another.
	keepArg = "sbxhost-init-keep"
)

// Unreachable is the exit status of an init that found nobody at the socket it
// was to fetch its descriptors from.
const Unreachable = 123

// FetchArgv is what follows the executable's name on the command line of an init
// whose launcher cannot hand descriptors down, as a daemon cannot. The init
// connects to the unix socket at that path inside, reads one [Handover] and
// then is what [Argv] makes of it. It never looks at the path again: take the
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

// Handover gives the message that hands a command's descriptors over, and the
// control data that belongs to its first byte. The files must stay open until
// both are sent.
func Handover(number uint64, initEnd *os.File, stdio [3]*os.File) (message, rights []byte) {
	message = binary.BigEndian.AppendUint64(nil, number)
	// Fd makes a file blocking, which is how a command expects to find it.
	rights = syscall.UnixRights(int(initEnd.Fd()), int(stdio[0].Fd()), int(stdio[1].Fd()), int(stdio[2].Fd()))
	return message, rights
}

// Ended decodes what a keeper sends, HandoverSize bytes: the number of the
// handover that it is done with.
func Ended(message []byte) uint64 { return binary.BigEndian.Uint64(message) }
