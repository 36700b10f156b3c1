//go:build unix

package frame

import (
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Conn is one end of a connection for messages and descriptors. Any goroutine may send; one may
// read.
type Conn struct {
	f   *os.File
	raw syscall.RawConn

	writing sync.Mutex

	fds []int // received, but not claimed by a message yet; for the reader
}

// NewConn takes over a stream socket. It uses the runtime's poller, so that Close ends a blocked
// call.
func NewConn(fd int) (*Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), "connection")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Conn{f: f, raw: raw}, nil
}

// Over returns a connection over a socket, which the caller closes.
func Over(socket syscall.RawConn) *Conn { return &Conn{raw: socket} }

// Pair returns a connection, and a file with its other end.
func Pair() (ours *Conn, theirs *os.File, err error) {
	fds, err := Socketpair()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if ours, err = NewConn(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "other end of a connection"), nil
}

// FilePair is Pair for a caller with messages of its own.
func FilePair() (ours, theirs *os.File, err error) {
	conn, theirs, err := Pair()
	if err != nil {
		return nil, nil, err
	}
	return conn.f, theirs, nil
}

func (c *Conn) Close() error { return c.f.Close() }

// Write sends one whole message.
func (c *Conn) Write(kind byte, m Message, fds ...int) error {
	return c.Send(Encode(kind, m), fds...)
}

// Send is Write for an encoded message.
func (c *Conn) Send(message []byte, fds ...int) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return Send(c.raw, message, fds...)
}

// Next returns the next message with a payload of at most limit bytes. The caller must claim its
// descriptors.
func (c *Conn) Next(limit int) (kind byte, payload []byte, err error) { return Read(c, limit) }

// Read implements [io.Reader], and keeps the descriptors that come with the data.
func (c *Conn) Read(p []byte) (int, error) {
	n, fds, err := ReceivePolled(c.raw, p)
	if c.fds = append(c.fds, fds...); err == nil && len(c.fds) > 4*MaxFiles {
		return 0, Malformed("descriptors of no message")
	}
	return n, err
}

// Claim returns the descriptors of the last message; the caller owns them.
func (c *Conn) Claim(n uint32) ([]int, error) {
	if int(n) > len(c.fds) {
		return nil, Malformed("without its descriptors")
	}
	fds := slices.Clone(c.fds[:n])
	c.fds = c.fds[n:]
	return fds, nil
}

// Discard closes descriptors that no message has claimed. The reader must have ended.
func (c *Conn) Discard() {
	CloseAll(c.fds)
	c.fds = nil
}
