package frame

import "golang.org/x/sys/unix"

const receiveFlags = unix.MSG_CMSG_CLOEXEC

// Socketpair makes a pair of close-on-exec stream sockets.
func Socketpair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}
