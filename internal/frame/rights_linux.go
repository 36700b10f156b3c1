package frame

import "golang.org/x/sys/unix"

const receiveFlags = unix.MSG_CMSG_CLOEXEC

func socketpair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}
