//go:build unix

package shared

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalName returns "SIGTERM", or "signal 34" for a signal without a name.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(sig))
}
