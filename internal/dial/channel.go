//go:build unix

package dial

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// abandonFor bounds the wait for a stopped engine.
const abandonFor = time.Second

// Channel is the host's end of the channel to one engine process. Many goroutines may call its
// methods at once.
type Channel struct {
	socket  *os.File
	sending chan struct{} // holds a value while a goroutine sends: messages must not interleave
}

// NewChannel makes a channel. The engine process inherits engineEnd, whose number is in
// [wire.ChannelEnv]. The caller closes its own copy after the start, and later the host's end, with
// [Channel.Close]. When the host's end closes, by Close or by death, the engine ends. Both ends are
// close-on-exec. The error is the system's: there are too many open files.
func NewChannel() (hostEnd *Channel, engineEnd *os.File, err error) {
	ours, theirs, err := frame.FilePair()
	if err != nil {
		return nil, nil, err
	}
	return &Channel{socket: ours, sending: make(chan struct{}, 1)}, theirs, nil
}

// Env is the variable for the engine process's environment; fd is the number of its end.
func (c *Channel) Env(fd int) string { return wire.ChannelEnv + "=" + strconv.Itoa(fd) }

// Close closes the host's end. The engine then ends its commands and exits; Close does not wait for
// that. A second call returns an error and changes nothing.
func (c *Channel) Close() error { return c.socket.Close() }

// send sends files under a fresh token. A stopped engine process receives nothing; ctx ends the
// wait.
func (c *Channel) send(ctx context.Context, files []*os.File) (wire.FilesToken, error) {
	var t wire.FilesToken
	rand.Read(t[:])
	return t, c.sendUnder(ctx, t, files)
}

// abandon takes back files that were sent under t, unless the engine has taken them: it would hold
// the caller's pipes open for a while. It is best effort.
func (c *Channel) abandon(t wire.FilesToken) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonFor)
	defer cancel()
	_ = c.sendUnder(ctx, t, nil)
}

func (c *Channel) sendUnder(ctx context.Context, t wire.FilesToken, files []*os.File) error {
	var fds []int
	for _, f := range files {
		// As os/exec does: it makes a pipe of the os package blocking, because most commands can
		// only use such a pipe.
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
