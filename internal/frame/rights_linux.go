package frame

import "golang.org/x/sys/unix"

const receiveFlags = unix.MSG_CMSG_CLOEXEC
