package shared

import "golang.org/x/sys/unix"

const (
	noSignal     = unix.MSG_NOSIGNAL
	receiveFlags = unix.MSG_CMSG_CLOEXEC
)
