package proc

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const lastFD = ^uint(0) >> 1 & 0x7fffffff

// CloseOnExecFrom marks every descriptor from first on, so that no program that this
// process executes inherits what this process was itself started with. What Go
// passes on by ExtraFiles is not affected.
func CloseOnExecFrom(first int) error {
	err := unix.CloseRange(uint(first), lastFD, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11, or refused by an old container's seccomp filter.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// InARow duplicates descriptors to consecutive numbers above them all, whatever
// has those: nothing else may be opened at the same time.
func InARow(fds []int) (first int, err error) {
	for _, fd := range fds {
		first = max(first, fd+1)
	}
	for i, fd := range fds {
		if err := unix.Dup3(fd, first+i, unix.O_CLOEXEC); err != nil {
			for made := range i {
				unix.Close(first + made)
			}
			return 0, err
		}
	}
	return first, nil
}
