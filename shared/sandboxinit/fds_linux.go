package sandboxinit

import (
	"os"
	"strconv"
	"strings"

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
	// Before Linux 5.11, or refused by an old container seccomp filter.
	return eachFD(func(fd int) {
		if fd >= first {
			unix.CloseOnExec(fd)
		}
	})
}

// closeInherited closes what the init has inherited by design and needs no
// more: its executable and the command's stdio. It goes by their numbers, not
// by a range: the Go runtime has fds of its own, one for its network poller
// among them, and dies without.
func closeInherited(control int) {
	if number, ok := strings.CutPrefix(os.Args[0], "/proc/self/fd/"); ok {
		if fd, ok := parseFD(number); ok && fd > 2 {
			unix.Close(fd)
		}
	}
	for fd := control + 1; fd <= control+3; fd++ {
		unix.Close(fd)
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
