// Package containerinit runs in a container that a daemon has started, until it becomes the init of
// package sandboxinit. A daemon passes on no descriptors, so it connects to a socket.
package containerinit

// connectArg is argv[1] of an init that connects to its engine.
const connectArg = "sbxhost-init-connect"

// Requested reports whether args are those of such an init.
func Requested(args []string) bool { return len(args) == 3 && args[1] == connectArg }

// Unreachable is the exit status of an init that found nobody at the socket.
const Unreachable = 123

// Argv is the command line after the executable's name of an init whose launcher, such as a
// daemon, cannot pass descriptors. The init connects to the unix socket at that path inside: the
// connection is its control socket. It never looks at the path again: remove the socket after
// the connection, and the command cannot find it.
func Argv(socket string) []string { return []string{connectArg, socket} }
