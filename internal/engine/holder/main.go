package holder

import "strconv"

// Arg is argv[1] of a holder, and its name in the list of processes.
const Arg = "sbxhost-holder"

// The descriptors of a holder besides the standard ones: its client's connection and its own
// executable. The holder's directory, if it has one, is its working directory.
const (
	clientFD = 3
	binaryFD = 4
	lockFD   = 5 // if it has a directory: locked while this process lives
)

// A holder has the directory of a session, or none.
const (
	ofSession = "session"
	alone     = "alone"
)

// argv is the command line of a holder, before the namespaces of its starter.
func argv(of string) []string {
	return []string{fdPath + strconv.Itoa(binaryFD), Arg, of}
}

// Requested reports whether args are those of a holder.
func Requested(args []string) bool {
	return len(args) == 3+len(namespaceNames) && args[1] == Arg && (args[2] == ofSession || args[2] == alone)
}

// namespaceNames are those of the namespaces in which a process of the starter must mount nothing.
var namespaceNames = [...]string{"mnt", "user"}

const fdPath = "/proc/self/fd/"
