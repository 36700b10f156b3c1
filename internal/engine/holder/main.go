package holder

import "strconv"

// Arg is argv[1] of a holder.
const Arg = "sbxhost-holder"

// The descriptors of a holder besides the standard ones: the first client's connection and its own
// executable. The holder's directory, if it has one, is its working directory.
const (
	clientFD = 3
	binaryFD = 4
	lockFD   = 5 // locked while this process lives, if it has a directory
)

// alone marks a holder with one client, and no directory.
const alone = "alone"

// argv is the command line of a holder, before the namespaces of its starter. If root starts it, it
// may run as another user, in whose namespace root has no name.
func argv(byRoot, forOne bool) []string {
	words := []string{fdPath + strconv.Itoa(binaryFD), Arg, strconv.FormatBool(byRoot)}
	if forOne {
		words[2] = alone
	}
	return words
}

// Requested reports whether args are those of a holder.
func Requested(args []string) bool {
	return len(args) == 3+len(namespaceNames) && args[1] == Arg && (args[2] == "true" || args[2] == "false" || args[2] == alone)
}

// namespaceNames are those of the namespaces in which a process of the starter must mount nothing.
var namespaceNames = [...]string{"mnt", "user"}

const fdPath = "/proc/self/fd/"
