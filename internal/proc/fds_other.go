//go:build !linux

package proc

import (
	"os"
	"strconv"
	"syscall"
)

// CloseOnExecFrom marks every descriptor from first on as close-on-exec, so that programs of this
// process do not inherit the descriptors that this process inherited. It does not affect Go's
// ExtraFiles.
func CloseOnExecFrom(first int) error {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// Await does nothing, and leaves the wait to the caller's reap: macOS's waitid also returns for a
// process that has only stopped.
func Await(int) {}

// Exit ends the process.
func Exit(code int) { os.Exit(code) }
