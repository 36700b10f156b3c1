// Package proc is what programs of ours do to their own process before they handle what
// a sandboxed command must not reach, and what they find out about others by /proc.
package proc

import (
	"os"
	"strconv"
)

// Failed is the exit status of an init that could not do its work. The engine goes by
// the control socket; this is for a person who sees it.
const Failed = 125

// Complain says on stderr what an init could not do, and gives Failed. That is the
// engine's stream for diagnosis, never the command's stderr.
func Complain(doing string, err error) int {
	os.Stderr.WriteString("sbxhost-init (pid " + strconv.Itoa(os.Getpid()) + "): " + doing + ": " + err.Error() + "\n")
	return Failed
}
