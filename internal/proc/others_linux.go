package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// Ended waits at most patience for the end of a descriptor's process, and reports whether it has
// ended.
func Ended(pidfd int, patience time.Duration) bool {
	for deadline := time.Now().Add(patience); ; {
		left := max(time.Until(deadline), 0) // a negative time would wait forever
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// Kill kills a process and waits at most patience for its end, if still accepts the process: its number
// may be another process's by now. It reports whether it has killed one.
func Kill(pid int, still func(pid int) bool, patience time.Duration) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false // it has ended
	}
	defer unix.Close(fd)
	if !still(pid) {
		return false
	}
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	Ended(fd, patience)
	return true
}
