package dial

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// An engine process that is stopped must not stop the host, too.
func TestChannelUnread(t *testing.T) {
	t.Parallel()
	host, engineEnd, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	defer engineEnd.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	sent := 0
	for err == nil {
		if _, err = host.send(ctx, []*os.File{null}); err == nil {
			sent++
		}
	}
	// What stops the host first is either the socket's buffer or the kernel's
	// bound on descriptors underway.
	if err != context.DeadlineExceeded && !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("got %v", err)
	}
	// What was sent arrives whole, and the channel works again.
	receive := func() (token wire.FilesToken) {
		n, fds, err := frame.Receive(int(engineEnd.Fd()), token[:])
		if n != len(token) || len(fds) != 1 || err != nil {
			t.Fatalf("%d bytes, %d descriptors, %v", n, len(fds), err)
		}
		frame.CloseAll(fds)
		return token
	}
	for range sent {
		receive()
	}
	last, err := host.send(t.Context(), []*os.File{null})
	if err != nil {
		t.Fatal(err)
	}
	if got := receive(); got != last {
		t.Errorf("%x, want %x", got, last)
	}
}

func TestChannelEnd(t *testing.T) {
	t.Parallel()
	host, engineEnd, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	engineEnd.Close()
	host.socket.Read(make([]byte, 1)) // until a child that another test has forked has closed it, too
	if _, err := host.send(t.Context(), []*os.File{os.Stdin}); !errors.Is(err, shared.ErrEngineLost) {
		t.Errorf("the engine's end is closed: %v", err)
	}
	host.Close()
	if _, err := host.send(t.Context(), []*os.File{os.Stdin}); !errors.Is(err, shared.ErrEngineLost) {
		t.Errorf("the host's end is closed: %v", err)
	}
	if err := host.Close(); !errors.Is(err, os.ErrClosed) && !errors.Is(err, syscall.EBADF) {
		t.Errorf("closed again: %v", err)
	}
}
