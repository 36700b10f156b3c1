package sandboxinit

import (
	"encoding/binary"
	"os"
	"syscall"
)

// stayArg is argv[1] of a pid 1 that outlives who has started it.
const stayArg = "sbxhost-init-stay"

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
