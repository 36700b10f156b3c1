package shared

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// channel is an inbox, and what sends to it.
func channel(t *testing.T) (in *inbox, send func(wire.FilesToken, ...*os.File), hostEnd *os.File, ended <-chan error) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.SetNonblock(fds[1], true)
	hostEnd, engineEnd := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "engine")
	in = newInbox()
	done := make(chan error, 1)
	go func() {
		done <- in.receive(engineEnd)
		engineEnd.Close()
	}()
	t.Cleanup(func() { hostEnd.Close() })
	raw, err := hostEnd.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return in, func(token wire.FilesToken, files ...*os.File) {
		t.Helper()
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		if err := frame.Send(raw, token[:], fds...); err != nil {
			t.Fatal(err)
		}
	}, hostEnd, done
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

func TestInbox(t *testing.T) {
	in, send, _, _ := channel(t)
	for i := range 100 {
		r, w := pipe(t)
		token := wire.FilesToken{1, byte(i)}
		send(token, r, w)
		files, err := in.claim(t.Context(), token, 2)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		w.Close()
		files[1].Write([]byte("x"))
		files[1].Close()
		if got, err := io.ReadAll(files[0]); string(got) != "x" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, files[0].Fd(), syscall.F_GETFD, 0)
		if errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
			t.Errorf("a received descriptor is not close-on-exec: %x, %v", flags, errno)
		}
		files[0].Close()
	}
}

func TestInboxOrders(t *testing.T) {
	in, send, _, _ := channel(t)
	r, w := pipe(t)
	// The claim comes first.
	claimed := make(chan error)
	go func() {
		files, err := in.claim(context.Background(), wire.FilesToken{1}, 1)
		frame.CloseFiles(files)
		claimed <- err
	}()
	send(wire.FilesToken{1}, r)
	if err := <-claimed; err != nil {
		t.Error(err)
	}
	// Announced with another number of files, which the kernel has dropped if it is larger.
	send(wire.FilesToken{2}, r, r)
	if _, err := in.claim(t.Context(), wire.FilesToken{2}, 1); !errors.Is(err, ErrInvalidSpec) {
		t.Errorf("more: %v", err)
	}
	send(wire.FilesToken{3})
	if _, err := in.claim(t.Context(), wire.FilesToken{3}, 1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("lost: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.claim(ctx, wire.FilesToken{4}, 1); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	// What is taken back is closed: the reader sees the end.
	send(wire.FilesToken{5}, w)
	w.Close()
	send(wire.FilesToken{5})
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
}

func TestInboxEnd(t *testing.T) {
	in, _, hostEnd, ended := channel(t)
	_ = in
	hostEnd.Close()
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
}
