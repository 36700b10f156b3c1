//go:build unix

package frame

import (
	"os"
	"syscall"
)

// A Writer is a socket to send on. [syscall.RawConn] is one.
type Writer interface {
	Write(f func(fd uintptr) (done bool)) error
}

// Send sends one whole message, with descriptors. It closes none of them.
func Send(socket Writer, message []byte, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	for len(message) > 0 {
		var n int
		var failed error
		err := socket.Write(func(fd uintptr) bool {
			n, failed = syscall.SendmsgN(int(fd), message, rights, nil, 0) // Go programs get no SIGPIPE from it
			return failed != syscall.EAGAIN
		})
		switch {
		case err != nil:
			return err
		case failed == syscall.EINTR:
			continue
		case failed != nil:
			return os.NewSyscallError("sendmsg", failed)
		}
		message, rights = message[n:], nil
	}
	return nil
}
