package dial

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitReadable waits until fd can be read without waiting or wake is closed.
func waitReadable(fd, wake int) (woken bool, err error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return fds[1].Revents != 0, err
	}
}
