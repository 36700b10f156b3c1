//go:build unix && !linux

package frame

import "syscall"

// receiveFlags: these systems cannot make received descriptors close-on-exec at once.
const receiveFlags = 0

// Socketpair makes a pair of close-on-exec stream sockets.
func Socketpair() ([2]int, error) {
	// Without SOCK_CLOEXEC a fork between the two calls would inherit the ends.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	return fds, err
}
