//go:build unix

package dial

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// abandonFor bounds the wait for an engine that is stopped.
const abandonFor = time.Second

// Channel is the host's end of the channel to one engine process. Its methods may be
// called from many goroutines at once.
type Channel struct {
	socket  channelSocket
	sending chan struct{} // holds a value while a message is sent: they must not interleave
}

// channelSocket is an *os.File or a *net.UnixConn.
type channelSocket interface {
	syscall.Conn
	Close() error
	SetWriteDeadline(time.Time) error
}

func newChannel(socket channelSocket) *Channel {
	return &Channel{socket: socket, sending: make(chan struct{}, 1)}
}

// NewChannel makes a channel. The engine process inherits engineEnd and finds
// its number by [wire.ChannelEnv]; the caller closes its own copy of engineEnd once
// the process has started, and the host's end, in the end, by [Channel.Close].
// Closing that, or dying, ends the engine. Both are close-on-exec. The error is the
// system's: there are too many open files.
func NewChannel() (hostEnd *Channel, engineEnd *os.File, err error) {
	// Not every unix can make sockets close-on-exec from birth: no fork of
	// this program may come in between.
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds { // before they become files, so that the runtime's poller serves them
		err = errors.Join(err, unix.SetNonblock(fd, true))
	}
	if err != nil {
		frame.CloseAll(fds[:])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return newChannel(os.NewFile(uintptr(fds[0]), "channel (host)")), os.NewFile(uintptr(fds[1]), "channel (engine)"), nil
}

// Env is what the engine process must have in its environment, where fd is the
// number under which it inherits its end.
func (c *Channel) Env(fd int) string { return wire.ChannelEnv + "=" + strconv.Itoa(fd) }

// Close closes the host's end, upon which the engine ends its commands and
// exits. It does not wait for that. A second one is an error and changes nothing.
func (c *Channel) Close() error { return c.socket.Close() }

// send sends files under a fresh token. An engine process that is stopped
// takes nothing; ctx ends the wait for it.
func (c *Channel) send(ctx context.Context, files []*os.File) (wire.FilesToken, error) {
	var t wire.FilesToken
	rand.Read(t[:])
	return t, c.sendUnder(ctx, t, files)
}

// abandon takes back what was sent under t and may never be claimed: the
// engine would hold the caller's pipes open. It is best effort.
func (c *Channel) abandon(t wire.FilesToken) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonFor)
	defer cancel()
	_ = c.sendUnder(ctx, t, nil)
}

func (c *Channel) sendUnder(ctx context.Context, t wire.FilesToken, files []*os.File) error {
	var fds []int
	for _, f := range files {
		// As os/exec does in process: puts a pipe of the os package into
		// blocking mode, which is all that most commands can read and write.
		fds = append(fds, int(f.Fd()))
	}
	defer runtime.KeepAlive(files)
	select {
	case c.sending <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.sending }()
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(expired)
		c.socket.SetWriteDeadline(time.Unix(1, 0))
	})
	raw, err := c.socket.SyscallConn()
	if err == nil {
		err = frame.Send(raw, t[:], fds...) // whole or not at all: it is one small piece of a socket's buffer
	}
	if !stop() {
		<-expired
		c.socket.SetWriteDeadline(time.Time{})
	}
	errno, ok := errors.AsType[unix.Errno](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case !ok, errno == unix.EPIPE, errno == unix.ECONNRESET: // not ok: closed by us
		return &shared.Error{Kind: shared.ErrEngineLost}
	}
	return err
}
