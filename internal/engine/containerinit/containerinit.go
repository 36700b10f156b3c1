// Package containerinit runs in a container that a daemon has started, until it becomes the init of
// package sandboxinit. A daemon passes on no descriptors, so it fetches them over a socket. It also
// keeps a container's namespaces for one command after another, and gives a new volume to its user.
package containerinit

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
	// stayArg is argv[1] of a pid 1 that outlives the engine that started it.
	stayArg = "sbxhost-init-stay"
	// ownArg is argv[1] of a process that gives directories to a user.
	ownArg = "sbxhost-init-own"
)

// Requested reports whether args are those of one of these processes.
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

// Unreachable is the exit status of an init that found nobody at the socket for its descriptors.
const Unreachable = 123

// FetchArgv is the command line after the executable's name of an init whose launcher, such as a
// daemon, cannot pass descriptors. The init connects to the unix socket at that path inside, reads
// one [Handover] and then is the init. It never looks at the path again: remove the socket after
// the connection, and the command cannot find it.
func FetchArgv(socket string) []string { return []string{fetchArg, socket} }

// KeepArgv is FetchArgv for a pid 1 that keeps its namespaces during the connection. It reads any
// number of handovers and starts an init, its child, for each. When one has ended, it sends the
// handover's number back ([Ended]). When none is left, it has before that killed, and seen the end
// of, all other processes of the namespace. The end of the connection ends it, and with it the
// namespace.
func KeepArgv(socket string) []string { return []string{keepArg, socket} }

// HandoverSize is the length of the messages of both directions, in bytes.
const HandoverSize = 8

// Handover returns the message that passes the init's end of a command's control socket, and the
// control data of its first byte. The file must stay open until both are sent.
func Handover(number uint64, initEnd *os.File) (message, rights []byte) {
	return binary.BigEndian.AppendUint64(nil, number), syscall.UnixRights(int(initEnd.Fd()))
}

// Ended decodes a keeper's message of HandoverSize bytes: the number of the handover that has
// ended.
func Ended(message []byte) uint64 { return binary.BigEndian.Uint64(message) }

// StayArgv is KeepArgv for a pid 1 that outlives the connection, so that another engine process can
// find it. The first message over the connection is [Settlement]. Then it accepts connections at
// that socket, each like KeepArgv's. Each command still ends with the engine that started it; pid 1
// ends, and with it the namespace, when the socket's file is gone and no command runs.
func StayArgv(socket string) []string { return []string{stayArg, socket} }

// Settlement returns the message with the socket of a pid 1 of StayArgv, which must listen in
// blocking mode, and its file, opened with O_PATH. Commands must not reach the file, and pid 1's
// user must be able to.
func Settlement(listener, file *os.File) (message, rights []byte) {
	return binary.BigEndian.AppendUint64(nil, 0), syscall.UnixRights(int(listener.Fd()), int(file.Fd()))
}

// Anybody, in place of an owner, lets everybody write.
const Anybody = "anybody"

// OwnArgv is the command line after the executable's name of a process that gives directories
// inside to an owner, "UID:GID" as the init sees them, and exits, with 0 if it could. A daemon's new
// volume belongs to root, and an image may have no program that changes that. It needs CAP_CHOWN,
// and root for [Anybody]. It does not change the directories' contents.
func OwnArgv(owner string, dirs ...string) []string { return append([]string{ownArg, owner}, dirs...) }
