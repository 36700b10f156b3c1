//go:build unix

package frame

import (
	"cmp"
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Receive is one recvmsg: it returns a part of a message, and the descriptors with it. n is 0 at
// the end. Except on Linux, the socket must be non-blocking: no fork may see descriptors before
// they are close-on-exec.
func Receive(socket int, p []byte) (n int, fds []int, err error) {
	// Space for one message's descriptors: the kernel does not join two messages.
	rights := make([]byte, unix.CmsgSpace(MaxFiles*4))
	if receiveFlags == 0 {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		defer func() {
			for _, fd := range fds {
				unix.CloseOnExec(fd)
			}
		}()
	}
	var size int
	for {
		n, size, _, _, err = unix.Recvmsg(socket, p, rights, receiveFlags)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil || size == 0 {
		return n, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	for i := range messages {
		got, failed := unix.ParseUnixRights(&messages[i])
		err = errors.Join(err, failed)
		fds = append(fds, got...)
	}
	return n, fds, err
}

// Control calls do with the descriptor of a file or a socket. Fd would end the file's use of the
// poller.
func Control(of syscall.Conn, do func(fd int) error) (err error) {
	raw, failed := of.SyscallConn()
	if failed == nil {
		failed = raw.Control(func(fd uintptr) { err = do(int(fd)) })
	}
	return cmp.Or(failed, err)
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	return Control(f, func(fd int) error {
		_, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		return err
	}) == nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// CloseFiles closes files; some may be nil.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// A Receiver reads a socket, and keeps the received descriptors.
type Receiver struct {
	Socket int
	Files  []int
}

// ReceivePolled is [Receive] on a socket that the runtime polls, with the results of [io.Reader].
func ReceivePolled(socket syscall.RawConn, p []byte) (n int, fds []int, err error) {
	var failed error
	err = socket.Read(func(fd uintptr) bool {
		n, fds, failed = Receive(int(fd), p)
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, fds, err
	case failed != nil:
		return 0, fds, os.NewSyscallError("recvmsg", failed)
	case n == 0:
		return 0, fds, io.EOF
	}
	return n, fds, nil
}

// Read implements [io.Reader].
func (r *Receiver) Read(p []byte) (int, error) {
	n, fds, err := Receive(r.Socket, p)
	r.Files = append(r.Files, fds...)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}
