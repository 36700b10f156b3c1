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

// conn is one end of a connection, over which messages and descriptors travel.
type conn struct {
	f   *os.File
	raw syscall.RawConn
	// holder is the process at the other end, where that is one and known.
	holder *os.Process
	// gone is closed when that, a child of this process, has been waited for; nil where it
	// is none.
	gone <-chan struct{}

	writing sync.Mutex

	fds []int // received, not claimed by a message yet; for the one reader
}

// newConn takes over a stream socket. It uses the runtime's poller, so that
// Close ends what waits.
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

// killStopped kills a holder that has been stopped, once a wait for it was given up. It
// would hold up the next command of the session, and has the files of this one in its
// socket.
func (c *conn) killStopped() {
	if c.holder != nil && proc.Stopped(c.holder.Pid) {
		c.holder.Kill() // by a descriptor: not who has got its number since
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

// read gives the next message. Its descriptors are to be claimed.
func (c *conn) read() (kind byte, payload []byte, err error) { return frame.Read(c, maxPayload) }

// Read implements [io.Reader], and keeps the descriptors that come along.
func (c *conn) Read(p []byte) (int, error) {
	n, fds, err := frame.ReceivePolled(c.raw, p)
	if c.fds = append(c.fds, fds...); err == nil && len(c.fds) > 4*frame.MaxFiles {
		return 0, frame.Malformed("descriptors of no message")
	}
	return n, err
}

// claim gives the descriptors of the message that was read last, which are the caller's.
func (c *conn) claim(n uint32) ([]int, error) {
	if int(n) > len(c.fds) {
		return nil, frame.Malformed("without its descriptors")
	}
	fds := slices.Clone(c.fds[:n])
	c.fds = c.fds[n:]
	return fds, nil
}

// discard closes what no message has claimed. The reader must have ended.
func (c *conn) discard() {
	frame.CloseAll(c.fds)
	c.fds = nil
}
