//go:build unix

package shared

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Channel is the host's end of the channel to one engine process. Its methods may be
// called from many goroutines at once.
type Channel struct {
	file    *os.File
	token   callToken
	sending chan struct{} // holds a value while a message is sent: they must not interleave
}

// NewChannel makes a channel. The engine process inherits engineEnd and finds
// its number in [ChannelEnv]; the caller closes its own copy of engineEnd once
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
	host, err := socketFile(fds[0], "channel (host)")
	if err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	engine, err := socketFile(fds[1], "channel (engine)")
	if err != nil {
		host.Close()
		return nil, nil, err
	}
	return &Channel{file: host, token: newCallToken(), sending: make(chan struct{}, 1)}, engine, nil
}

// socketFile takes over fd as a file that the runtime's poller serves.
func socketFile(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("setnonblock", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Env is what the engine process must have in its environment, where fd is the
// number under which it inherits its end.
func (c *Channel) Env(fd int) []string {
	return []string{ChannelEnv + "=" + strconv.Itoa(fd), tokenEnv + "=" + string(c.token)}
}

// Close closes the host's end, upon which the engine ends its commands and
// exits. It does not wait for that. A second one is an error and changes nothing.
func (c *Channel) Close() error { return c.file.Close() }

// send sends files under a fresh token. An engine process that is stopped
// takes nothing; ctx ends the wait for it.
func (c *Channel) send(ctx context.Context, files []*os.File) (token, error) {
	var t token
	if _, err := rand.Read(t[:]); err != nil {
		return t, err
	}
	return t, c.sendUnder(ctx, t, files)
}

// abandon takes back what was sent under t and may never be claimed: the
// engine would hold the caller's pipes open. It is best effort.
func (c *Channel) abandon(t token) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonFor)
	defer cancel()
	_ = c.sendUnder(ctx, t, nil)
}

func (c *Channel) sendUnder(ctx context.Context, t token, files []*os.File) error {
	for _, f := range files {
		// As os/exec does in process: puts a pipe of the os package into
		// blocking mode, which is all that most commands can read and write.
		f.Fd()
	}
	select {
	case c.sending <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.sending }()
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(expired)
		c.file.SetWriteDeadline(time.Unix(1, 0))
	})
	sent := 0
	err := withDescriptors(files, nil, func(fds []int) (err error) {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		sent, err = sendMessage(c.file, t[:], rights)
		return err
	})
	if !stop() {
		<-expired
		c.file.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return nil
	case 0 < sent && sent < tokenSize:
		c.file.Close() // the rest would be missing from the next message
		return &Error{Kind: ErrEngineLost}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok || errno == unix.EPIPE || errno == unix.ECONNRESET { // not ok: closed by us
		return &Error{Kind: ErrEngineLost}
	}
	return err
}

// withDescriptors calls f with the descriptors of files, which stay open
// meanwhile.
func withDescriptors(files []*os.File, fds []int, f func(fds []int) error) error {
	if len(files) == 0 {
		return f(fds)
	}
	var inner error
	conn, err := files[0].SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			inner = withDescriptors(files[1:], append(fds, int(fd)), f)
		})
	}
	if err != nil {
		return invalid("stdio", "%s: %v", files[0].Name(), err)
	}
	return inner
}

// sendMessage says how many bytes of data it has sent.
func sendMessage(f *os.File, data, rights []byte) (sent int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	for sent < len(data) {
		var n int
		var sendErr error
		if err := conn.Write(func(fd uintptr) bool {
			n, sendErr = unix.SendmsgN(int(fd), data[sent:], rights, nil, noSignal)
			return sendErr != unix.EAGAIN && sendErr != unix.EINTR
		}); err != nil {
			return sent, err
		}
		if sendErr != nil {
			return sent, os.NewSyscallError("sendmsg", sendErr)
		}
		sent, rights = sent+n, nil // the descriptors went with the first byte
	}
	return sent, nil
}

// channelFromEnv takes the engine's end out of the environment, so that no
// child finds it there; nil when the host gave none.
func channelFromEnv() (*os.File, error) {
	value, ok := os.LookupEnv(ChannelEnv)
	if !ok {
		return nil, nil
	}
	os.Unsetenv(ChannelEnv)
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is not the number of an inherited descriptor", ChannelEnv, value)
	}
	unix.CloseOnExec(fd)
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return nil, fmt.Errorf("%s=%d is not a stream socket", ChannelEnv, fd)
	}
	return socketFile(fd, "channel")
}

// receive fills b from the engine's end f until its end.
func (b *inbox) receive(f *os.File) error {
	defer b.close()
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var a assembler
	defer func() { closeAll(a.fds) }()
	oob := make([]byte, unix.CmsgSpace(maxDescriptors*4))
	buf := make([]byte, tokenSize)
	for {
		n, fds, lost, err := receivePart(conn, buf[:a.want()], oob)
		if err != nil {
			closeAll(fds)
			return err
		}
		if n == 0 {
			closeAll(fds)
			return io.EOF
		}
		if a.feed(buf[:n], fds, lost) {
			b.put(newParcel(a.take()))
		}
	}
}

func newParcel(t token, fds []int, lost bool) parcel {
	if lost {
		closeAll(fds)
		return parcel{token: t}
	}
	p := parcel{token: t}
	for _, fd := range fds {
		p.files = append(p.files, os.NewFile(uintptr(fd), "stdio"))
	}
	return p
}

// receivePart is one recvmsg. No fork may see the descriptors before they are
// close-on-exec: a command would inherit another one's files.
func receivePart(conn syscall.RawConn, buf, oob []byte) (n int, fds []int, lost bool, err error) {
	var recvErr error
	if err := conn.Read(func(fd uintptr) bool {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		var oobn, flags int
		n, oobn, flags, _, recvErr = unix.Recvmsg(int(fd), buf, oob, receiveFlags)
		if recvErr != nil {
			return recvErr != unix.EAGAIN && recvErr != unix.EINTR
		}
		var badRights bool
		fds, badRights = parseRights(oob[:oobn])
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		lost = badRights || flags&unix.MSG_CTRUNC != 0
		return true
	}); err != nil {
		return 0, nil, false, err
	}
	return n, fds, lost, recvErr
}

// parseRights gives the descriptors in a control message; bad says that not
// all of it was understood.
func parseRights(oob []byte) (fds []int, bad bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		bad = true
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			continue
		}
		if len(m.Data)%4 != 0 { // would be read beyond its end
			bad = true
			m.Data = m.Data[:len(m.Data)&^3]
		}
		got, err := unix.ParseUnixRights(m)
		if err != nil {
			bad = true
			continue
		}
		fds = append(fds, got...)
	}
	return fds, bad
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
