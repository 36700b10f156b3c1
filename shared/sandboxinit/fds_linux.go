package sandboxinit

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const lastFD = ^uint(0) >> 1 & 0x7fffffff

// closeOnExecFrom marks every fd from first on.
func closeOnExecFrom(first int) error {
	err := unix.CloseRange(uint(first), lastFD, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11, or refused by an old container seccomp filter.
	return eachFD(func(fd int) {
		if fd >= first {
			unix.CloseOnExec(fd)
		}
	})
}

// closeAllBut closes every fd above the standard ones except one. Failure is of
// no consequence: they are close-on-exec, and go with the init.
func closeAllBut(keep int) {
	var err error
	if keep > 3 {
		err = unix.CloseRange(3, uint(keep)-1, 0)
	}
	if err == nil {
		err = unix.CloseRange(uint(keep)+1, lastFD, 0)
	}
	if err != nil {
		eachFD(func(fd int) {
			if fd > 2 && fd != keep {
				unix.Close(fd)
			}
		})
	}
}

func eachFD(do func(fd int)) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			do(fd)
		}
	}
	return nil
}
