// Package proc changes this program's own process before it handles anything that a sandboxed
// command must not reach, and reads facts about other processes from /proc.
package proc

import (
	"os"
	"strconv"
)

// Failed is the exit status of an init that could not do its work. The engine uses the control
// socket; the status is for a person who sees it.
const Failed = 125

// Complain prints on stderr what an init could not do, and returns Failed. That stream is the
// engine's, for diagnosis, and never the command's stderr.
func Complain(doing string, err error) int {
	os.Stderr.WriteString("sbxhost-init (pid " + strconv.Itoa(os.Getpid()) + "): " + doing + ": " + err.Error() + "\n")
	return Failed
}
