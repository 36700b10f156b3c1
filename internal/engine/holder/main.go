package holder

import "strconv"

// Arg is argv[1] of a process that is to be a holder.
const Arg = "sbxhost-holder"

// The descriptors that such a process has beside the standard ones: the first
// client's connection and its own executable. The holder's directory, where it has one,
// is its working directory.
const (
	clientFD = 3
	binaryFD = 4
	mountFD  = 5 // the mount and the user namespace of who has started it, which must not
	userFD   = 6 // be its own
	lockFD   = 7 // locked for as long as this process lives; where it has a directory
)

// alone stands for a holder that has one client, and no directory.
const alone = "alone"

// argv is the command line of a holder; started by root, it runs as another user
// perhaps, in whose namespace root has no name.
func argv(byRoot, forOne bool) []string {
	words := []string{fdPath + strconv.Itoa(binaryFD), Arg, strconv.FormatBool(byRoot)}
	if forOne {
		words[2] = alone
	}
	return words
}

// Requested reports whether args are those of a process that is to be a holder.
func Requested(args []string) bool {
	return len(args) == 3 && args[1] == Arg && (args[2] == "true" || args[2] == "false" || args[2] == alone)
}

const fdPath = "/proc/self/fd/"
