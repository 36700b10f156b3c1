//go:build !linux

package proc

import (
	"os"
	"strconv"
	"syscall"
)

// CloseOnExecFrom marks every descriptor from first on, so that no program that this
// process executes inherits what this process was itself started with. What Go
// passes on by ExtraFiles is not affected.
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

// Await leaves it to who reaps to wait: macOS's waitid also returns for a process that has only
// stopped.
func Await(int) {}

// Exit ends the process.
func Exit(code int) { os.Exit(code) }
