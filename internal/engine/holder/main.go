package holder

import "strconv"

// Arg is argv[1] of a holder.
const Arg = "sbxhost-holder"

// The descriptors of a holder besides the standard ones: the first client's connection and its own
// executable. The holder's directory, if it has one, is its working directory.
const (
	clientFD = 3
	binaryFD = 4
	// If it has a directory:
	lockFD   = 5 // locked while this process lives
	statusFD = 6 // the starter's, which sees all groups by their numbers
)

// A holder is for all clients of its directory, or has one client and no directory.
const (
	forAll = "all"
	alone  = "alone"
)

// argv is the command line of a holder, before the namespaces of its starter.
func argv(clients string) []string {
	return []string{fdPath + strconv.Itoa(binaryFD), Arg, clients}
}

// Requested reports whether args are those of a holder.
func Requested(args []string) bool {
	return len(args) == 3+len(namespaceNames) && args[1] == Arg && (args[2] == forAll || args[2] == alone)
}

// namespaceNames are those of the namespaces in which a process of the starter must mount nothing.
var namespaceNames = [...]string{"mnt", "user"}

const fdPath = "/proc/self/fd/"
