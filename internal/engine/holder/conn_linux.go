package holder

import (
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// conn is one end of a connection for messages and descriptors.
type conn struct {
	f   *os.File
	raw syscall.RawConn
	// holder is the process at the other end, if that is a holder and known.
	holder *os.Process
	// gone is closed when that process, a child of this one, was reaped; nil if it is no child.
	gone <-chan struct{}

	writing sync.Mutex

	fds []int // received, but not claimed by a message yet; for the one reader
}

// newConn takes over a stream socket. It uses the runtime's poller, so that Close ends a blocked
// call.
func newConn(fd int) (*conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), "holder")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &conn{f: f, raw: raw}, nil
}

func (c *conn) close() { c.f.Close() }

// killStopped kills a stopped holder after the wait for it was given up. It would delay the next
// command of the session, and its socket holds the files of this one.
func (c *conn) killStopped() {
	if c.holder != nil && proc.Stopped(c.holder.Pid) {
		c.holder.Kill() // by pidfd: its number may be another process's
	}
}

// write sends one whole message.
func (c *conn) write(kind byte, m frame.Message, fds ...int) error {
	return c.send(frame.Encode(kind, m, 256), fds...)
}

func (c *conn) send(message []byte, fds ...int) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return frame.Send(c.raw, message, fds...)
}

// read returns the next message. The caller must claim its descriptors.
func (c *conn) read() (kind byte, payload []byte, err error) { return frame.Read(c, maxPayload) }

// Read implements [io.Reader], and keeps the descriptors that come with the data.
func (c *conn) Read(p []byte) (int, error) {
	n, fds, err := frame.ReceivePolled(c.raw, p)
	if c.fds = append(c.fds, fds...); err == nil && len(c.fds) > 4*frame.MaxFiles {
		return 0, frame.Malformed("descriptors of no message")
	}
	return n, err
}

// claim returns the descriptors of the last message; the caller owns them.
func (c *conn) claim(n uint32) ([]int, error) {
	if int(n) > len(c.fds) {
		return nil, frame.Malformed("without its descriptors")
	}
	fds := slices.Clone(c.fds[:n])
	c.fds = c.fds[n:]
	return fds, nil
}

// discard closes descriptors that no message has claimed. The reader must have ended.
func (c *conn) discard() {
	frame.CloseAll(c.fds)
	c.fds = nil
}
