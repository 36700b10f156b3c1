//go:build unix

package sandboxinit

import (
	"os"
	"strconv"
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// The roles of a process of this program, by argv[1], followed by numbers of descriptors. Those in
// brackets may be missing.
const (
	initRole  = "sbxhost-init"       // CONTROL [RESETS]: an init
	traceRole = "sbxhost-init-trace" // CONTROL: the tracer of a command, started by an init
	// connectRole is an init that connects to its engine: its one word more is the path of a socket.
	connectRole = "sbxhost-init-connect"
	// StandaloneArg is the role of an init that later receives words with another role: see
	// [holder.StartStandalone]. The namespaces of its starter follow.
	StandaloneArg = "sbxhost-init-alone"
)

// hooked says that this program's main has called [Hook]. It is process-wide because it is about
// the process's main: only then is it safe to execute the program again and expect an init.
var hooked atomic.Bool

// Hook prepares a program to be the init, a session's holder, and the init in a container. It must
// be the first statement of main. In a process that was started as one of them, by [Argv],
// [ConnectArgv] or package holder, it takes this role and does not return; otherwise it records the
// call and returns at once.
func Hook() {
	if run := role(os.Args); run != nil {
		proc.Exit(run())
	}
	hooked.Store(true)
}

// descriptors returns the numbers of a role's command line; nil for another command line.
func descriptors(args []string) (fds []int) {
	for _, word := range args[min(2, len(args)):] {
		fd, ok := parseFD(word)
		if !ok {
			return nil
		}
		fds = append(fds, fd)
	}
	return fds
}

// Argv returns the command line that a launcher runs inside the sandbox, with the fd numbers that
// the launcher's child inherits: the executable from [Binary.Open], and the init's end of the
// control socket, over which [Conn.Complete] passes the command's stdin, stdout and stderr. If the
// init makes its sandbox itself ([Conn.Make]), its own overlays are the descriptors after that.
func Argv(binaryFD, controlFD int) []string {
	return []string{"/proc/self/fd/" + strconv.Itoa(binaryFD), initRole, strconv.Itoa(controlFD)}
}

// ConnectArgv is the command line after the executable's name of an init whose launcher, such as a
// daemon, cannot pass descriptors. The init connects to the unix socket at that path inside: the
// connection is its control socket. It never looks at the path again: remove the socket after
// the connection, and the command cannot find it.
func ConnectArgv(socket string) []string { return []string{connectRole, socket} }

// Unreachable is the exit status of an init that found nobody at the socket of [ConnectArgv].
const Unreachable = 123

// parseFD accepts the canonical decimal form of an fd above the standard ones.
func parseFD(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 3 || n > 1<<20 || strconv.Itoa(n) != s {
		return 0, false
	}
	return n, true
}
