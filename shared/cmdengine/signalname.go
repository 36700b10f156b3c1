//go:build unix

package cmdengine

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(sig))
}
