//go:build unix

package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
)

const (
	// parkedFor is how long files wait for the request that names them.
	parkedFor = 30 * time.Second
	// claimFor is how long a request waits for its files, which the host sent first.
	claimFor = 10 * time.Second
)

// An inbox keeps a command's files from the channel until the request that names them. Either may
// come first, because they use different sockets.
type inbox struct {
	mu      sync.Mutex
	waiting map[wire.FilesToken][]*os.File
	arrived chan struct{} // closed and replaced when files arrive
}

func newInbox() *inbox {
	return &inbox{waiting: map[wire.FilesToken][]*os.File{}, arrived: make(chan struct{})}
}

func (b *inbox) put(t wire.FilesToken, files []*os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.waiting[t]; again {
		b.drop(t) // the host repeats a token to take its files back
		frame.CloseFiles(files)
		return
	}
	b.waiting[t] = files
	close(b.arrived)
	b.arrived = make(chan struct{})
	time.AfterFunc(parkedFor, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drop(t)
	})
}

// drop closes the files of t; the caller holds the lock.
func (b *inbox) drop(t wire.FilesToken) {
	frame.CloseFiles(b.waiting[t])
	delete(b.waiting, t)
}

// take returns the files of t, and a channel that signals the next arrival.
func (b *inbox) take(t wire.FilesToken) (files []*os.File, ok bool, arrived <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	files, ok = b.waiting[t]
	delete(b.waiting, t)
	return files, ok, b.arrived
}

// claim returns the n files of t; the caller then owns them.
func (b *inbox) claim(ctx context.Context, t wire.FilesToken, n int) ([]*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, claimFor, &Error{Kind: ErrBroken, Message: "the stdio descriptors did not arrive"})
	defer cancel()
	for {
		files, ok, arrived := b.take(t)
		switch {
		case !ok:
		case len(files) == n:
			return files, nil
		case len(files) > n:
			frame.CloseFiles(files)
			return nil, invalid("stdio", "%d descriptors were announced and %d sent", n, len(files))
		default: // the kernel drops descriptors beyond the process's limit
			frame.CloseFiles(files)
			return nil, &Error{
				Kind:    ErrUnavailable,
				Message: "the stdio descriptors did not fit into the engine process",
				Hint:    "raise its limit of open files (ulimit -n)",
			}
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// receive fills b from the engine's end of a channel. It returns nil at the end of the channel.
func (b *inbox) receive(channel syscall.Conn) error {
	raw, err := channel.SyscallConn()
	if err != nil {
		return err
	}
	in := &descriptorReader{raw: raw}
	defer func() { frame.CloseFiles(in.files) }()
	for {
		var t wire.FilesToken
		if _, err := io.ReadFull(in, t[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		// A read never returns data of two messages.
		b.put(t, in.files)
		in.files = nil
	}
}

// descriptorReader reads a socket and keeps the files that come with the data.
type descriptorReader struct {
	raw   syscall.RawConn
	files []*os.File
}

func (r *descriptorReader) Read(p []byte) (int, error) {
	n, fds, err := frame.ReceivePolled(r.raw, p)
	for _, fd := range fds {
		r.files = append(r.files, os.NewFile(uintptr(fd), "stdio"))
	}
	return n, err
}

// channelFromEnv removes the channel's descriptor from the environment, so that no child finds it.
func channelFromEnv() (*os.File, error) {
	value, ok := os.LookupEnv(wire.ChannelEnv)
	if !ok {
		return nil, fmt.Errorf("%s is not set: the host sends no files", wire.ChannelEnv)
	}
	os.Unsetenv(wire.ChannelEnv)
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is not the number of an inherited descriptor", wire.ChannelEnv, value)
	}
	syscall.CloseOnExec(fd)
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil || kind != syscall.SOCK_STREAM {
		return nil, fmt.Errorf("%s=%d is not a stream socket", wire.ChannelEnv, fd)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // for the runtime's poller
		return nil, os.NewSyscallError("setnonblock", err)
	}
	return os.NewFile(uintptr(fd), "channel"), nil
}
