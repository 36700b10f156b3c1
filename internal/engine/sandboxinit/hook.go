//go:build unix

package sandboxinit

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// The roles of a process of this program, by argv[1], followed by numbers of descriptors. Those in
// brackets may be missing.
const (
	initRole  = "sbxhost-init"       // CONTROL [RESETS]: an init, in the sandbox of its command
	makeRole  = "sbxhost-init-make"  // CONTROL MOUNT USER: an init that makes its sandbox first
	traceRole = "sbxhost-init-trace" // CONTROL: the tracer of a command, started by an init
	// AloneArg is the role of an init that later receives words with another role: see
	// [holder.StartAlone].
	AloneArg = "sbxhost-init-alone"
)

// hooked says that this program's main has called [Hook]. It is process-wide because it is about
// the process's main: only then is it safe to execute the program again and expect an init.
var hooked atomic.Bool

// Hook prepares a program to be the init, a session's holder, and the init in a container. It must
// be the first statement of main. In a process that was started as one of them, by [Argv], package
// holder or package containerinit, it takes this role and does not return; otherwise it records the
// call and returns at once.
func Hook() {
	if holder.Requested(os.Args) {
		proc.Exit(holder.Main(os.Args))
	}
	if containerinit.Requested(os.Args) {
		proc.Exit(containerinit.Main(os.Args, initRole, runInit))
	}
	if name, fds := parseArgs(os.Args); fds != nil {
		if run := role(name, fds); run != nil {
			proc.Exit(run())
		}
	}
	hooked.Store(true)
}

// parseArgs returns the role of a command line, and its descriptors; nil for another command line.
func parseArgs(args []string) (role string, fds []int) {
	if len(args) < 3 {
		return "", nil
	}
	for _, word := range args[2:] {
		fd, ok := parseFD(word)
		if !ok {
			return "", nil
		}
		fds = append(fds, fd)
	}
	return args[1], fds
}

// Argv returns the command line that a launcher runs inside the sandbox, with the fd numbers that
// the launcher's child inherits: the executable from [Binary.Open], and the init's end of the
// control socket, over which [Conn.Complete] passes the command's stdin, stdout and stderr.
func Argv(binaryFD, controlFD int) []string {
	return []string{"/proc/self/fd/" + strconv.Itoa(binaryFD), initRole, strconv.Itoa(controlFD)}
}

// IsLauncher reports whether words are the command line of a launcher with [Argv] at its end.
func IsLauncher(words []string) bool {
	n := len(words)
	if n < 4 || words[n-2] != initRole || !strings.HasPrefix(words[n-3], "/proc/self/fd/") {
		return false
	}
	_, ok := parseFD(words[n-1])
	return ok
}

// MakingArgv is Argv for an init that makes its sandbox itself, from a holder's tree. [Conn.Make]
// sends it what to make; the descriptors after controlFD are its own overlays. mountFD and userFD
// are the descriptors of the mount and the user namespace of its starter, which the init must not
// be in.
func MakingArgv(binaryFD, controlFD, mountFD, userFD int) []string {
	argv := append(Argv(binaryFD, controlFD), strconv.Itoa(mountFD), strconv.Itoa(userFD))
	argv[1] = makeRole
	return argv
}

// parseFD accepts the canonical decimal form of an fd above the standard ones.
func parseFD(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 3 || n > 1<<20 || strconv.Itoa(n) != s {
		return 0, false
	}
	return n, true
}
