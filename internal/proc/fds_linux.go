package proc

import "golang.org/x/sys/unix"

const lastFD = 1<<31 - 1

// CloseOnExecFrom marks every descriptor from first on as close-on-exec, so that programs of this
// process do not inherit the descriptors that this process inherited. It does not affect Go's
// ExtraFiles.
func CloseOnExecFrom(first int) error {
	err := unix.CloseRange(uint(first), lastFD, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11, or refused by an old container's seccomp filter.
	return closeOnExecFrom("/proc/self/fd", first)
}

// InARow duplicates descriptors to consecutive numbers above all of them. Descriptors that others
// open at the same time, such as the runtime's epoll instance, keep their numbers.
func InARow(fds []int) (first int, err error) {
	for _, fd := range fds {
		first = max(first, fd+1)
	}
	for made := 0; made < len(fds); {
		got, err := unix.FcntlInt(uintptr(fds[made]), unix.F_DUPFD_CLOEXEC, first+made)
		if err == nil && got == first+made {
			made++
			continue
		}
		for fd := first; fd < first+made; fd++ {
			unix.Close(fd)
		}
		if err != nil {
			return 0, err
		}
		unix.Close(got)
		first, made = got, 0 // above the descriptors in the way
	}
	return first, nil
}
