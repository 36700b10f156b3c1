package holder

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

	// for the one reader
	buffer []byte
	fds    []int // received, not claimed by a message yet
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

// stoppedCheck is how often it is looked whether a holder that is waited for has been
// stopped.
const stoppedCheck = 250 * time.Millisecond

// minded kills the holder if it is found to be stopped before the caller calls done.
// It would hold up the commands of all its clients, with their files in its
// socket, for as long as somebody likes.
func (c *conn) minded() (done func()) {
	waiting, stop := context.WithCancel(context.Background())
	var look func()
	look = func() {
		if c.killStopped(); waiting.Err() == nil {
			time.AfterFunc(stoppedCheck, look)
		}
	}
	first := time.AfterFunc(stoppedCheck, look)
	return func() {
		stop()
		first.Stop()
	}
}

// killStopped kills the holder if it is stopped.
func (c *conn) killStopped() {
	if c.holder != nil && stopped(c.holder.Pid) {
		c.holder.Kill() // by a descriptor: not who has got its number since
	}
}

// stopped reports whether a process has got SIGSTOP, or another such signal. One that
// is being traced has not.
func stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // a name can hold anything
	return len(state) > 0 && state[0] == "T"
}

// write sends one whole message.
func (c *conn) write(b []byte, fds ...int) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for len(b) > 0 {
		var n int
		var failed error
		err := c.raw.Write(func(fd uintptr) bool {
			n, failed = unix.SendmsgN(int(fd), b, rights, nil, unix.MSG_NOSIGNAL)
			return failed != unix.EAGAIN
		})
		switch {
		case err != nil:
			return err
		case failed == unix.EINTR:
			continue
		case failed != nil:
			return os.NewSyscallError("sendmsg", failed)
		}
		b, rights = b[n:], nil
	}
	return nil
}

// read gives the next message and its descriptors, which are the caller's. The
// error is io.EOF only between messages.
func (c *conn) read() (messageKind, []byte, []int, error) {
	if err := c.fill(headerSize); err != nil {
		return 0, nil, nil, err
	}
	n := int(binary.BigEndian.Uint32(c.buffer))
	k, files := messageKind(c.buffer[4]), int(c.buffer[5])
	if n > maxPayload {
		return 0, nil, nil, errProtocol
	}
	if err := c.fill(headerSize + n); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, nil, err
	}
	payload := append([]byte(nil), c.buffer[headerSize:headerSize+n]...)
	c.buffer = append(c.buffer[:0], c.buffer[headerSize+n:]...)
	if files > len(c.fds) {
		return 0, nil, nil, errProtocol
	}
	fds := append([]int(nil), c.fds[:files]...)
	c.fds = c.fds[files:]
	return k, payload, fds, nil
}

// fill reads until n bytes are buffered.
func (c *conn) fill(n int) error {
	for len(c.buffer) < n {
		chunk := make([]byte, max(4<<10, n-len(c.buffer)))
		// Room for one full message of descriptors: the kernel does not join two.
		rights := make([]byte, unix.CmsgSpace(maxFiles*4))
		var got, control int
		var failed error
		err := c.raw.Read(func(fd uintptr) bool {
			got, control, _, _, failed = unix.Recvmsg(int(fd), chunk, rights, unix.MSG_CMSG_CLOEXEC)
			return failed != unix.EAGAIN
		})
		switch {
		case err != nil:
			return err
		case failed == unix.EINTR:
			continue
		case failed != nil:
			return os.NewSyscallError("recvmsg", failed)
		}
		if control > 0 {
			if err := c.claim(rights[:control]); err != nil {
				return err
			}
		}
		if got == 0 {
			if len(c.buffer) == 0 {
				return io.EOF
			}
			return io.ErrUnexpectedEOF
		}
		c.buffer = append(c.buffer, chunk[:got]...)
		if len(c.fds) > 4*maxFiles {
			return errProtocol
		}
	}
	return nil
}

func (c *conn) claim(control []byte) error {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return errors.Join(errProtocol, err)
		}
		c.fds = append(c.fds, fds...)
	}
	return nil
}

// discard closes what no message has claimed. The reader must have ended.
func (c *conn) discard() {
	closeFDs(c.fds)
	c.fds = nil
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
