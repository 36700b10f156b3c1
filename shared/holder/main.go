package holder

import "strconv"

// Arg is argv[1] of a process that is to be a holder.
const Arg = "sbxhost-holder"

// The descriptors that such a process has beside the standard ones: the first
// client's connection and its own executable. The holder's directory is its
// working directory.
const (
	clientFD = 3
	binaryFD = 4
	mountFD  = 5 // the mount and the user namespace of who has started it, which must not
	userFD   = 6 // be its own
)

// argv is the command line of a holder; started by root, it runs as another user
// perhaps, in whose namespace root has no name.
func argv(byRoot bool) []string {
	return []string{fdPath + strconv.Itoa(binaryFD), Arg, strconv.FormatBool(byRoot)}
}

// Wanted reports whether args are those of a process that is to be a holder.
func Wanted(args []string) bool {
	return len(args) == 3 && args[1] == Arg && (args[2] == "true" || args[2] == "false")
}

const fdPath = "/proc/self/fd/"
