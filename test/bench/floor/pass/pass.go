//go:build linux

// Package pass is what the processes of a floor say to each other: one byte, with descriptors.
package pass

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Must ends this process with an error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Check ends this process with an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Socket makes a socket, and its address at a path.
func Socket(path string) (int, unix.Sockaddr) {
	return Must(unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)), &unix.SockaddrUnix{Name: path}
}

// Pair makes two sockets.
func Pair() [2]int {
	return Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))
}

// Send sends a byte with descriptors.
func Send(socket int, files ...int) {
	Check(unix.Sendmsg(socket, []byte{0}, unix.UnixRights(files...), nil, 0))
}

// Receive receives what Send sends. It ends this process if the other end is gone.
func Receive(socket int) (files []int) {
	b, rights := make([]byte, 1), make([]byte, 64)
	n, length, _, _, err := unix.Recvmsg(socket, b, rights, unix.MSG_CMSG_CLOEXEC)
	if Check(err); n == 0 {
		os.Exit(0)
	}
	for _, m := range Must(unix.ParseSocketControlMessage(rights[:length])) {
		files = Must(unix.ParseUnixRights(&m))
	}
	return files
}
