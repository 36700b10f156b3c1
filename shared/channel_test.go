//go:build unix

package shared

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// channel is both ends, the engine's being received.
func channel(t *testing.T) (*Channel, *inbox, <-chan error) {
	t.Helper()
	host, engineEnd, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	in := newInbox()
	ended := make(chan error, 1)
	go func() { ended <- in.receive(engineEnd) }()
	t.Cleanup(func() {
		host.Close()
		<-in.ended
		engineEnd.Close()
	})
	return host, in, ended
}

func TestChannel(t *testing.T) {
	checkLeaks(t)
	host, in, _ := channel(t)
	for range 100 {
		r, w := pipe(t)
		sent, err := host.send(t.Context(), []*os.File{r, w})
		if err != nil {
			t.Fatal(err)
		}
		files, err := in.claim(t.Context(), sent, 2)
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
		flags, err := unix.FcntlInt(files[0].Fd(), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("a received descriptor is not close-on-exec: %x, %v", flags, err)
		}
		files[0].Close()
	}
}

func TestChannelOrders(t *testing.T) {
	checkLeaks(t)
	host, in, _ := channel(t)
	r, _ := pipe(t)
	// The claim comes first.
	claimed := make(chan error)
	tok := token{1}
	go func() {
		files, err := in.claim(context.Background(), tok, 1)
		for _, f := range files {
			f.Close()
		}
		claimed <- err
	}()
	sendAs(t, host, tok, r)
	if err := <-claimed; err != nil {
		t.Error(err)
	}
	// Tokens that were announced with another number of files.
	sendAs(t, host, token{2}, r, r)
	if _, err := in.claim(t.Context(), token{2}, 3); !errors.Is(err, ErrInvalidSpec) {
		t.Errorf("number: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.claim(ctx, token{3}, 1); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	// More than can be parked; the newest are there, and the first is not.
	for i := range maxParked + 10 {
		tok := token{4}
		binary.BigEndian.PutUint32(tok[8:], uint32(i))
		sendAs(t, host, tok, r)
	}
	last := token{4}
	binary.BigEndian.PutUint32(last[8:], maxParked+9)
	if files, err := in.claim(t.Context(), last, 1); err != nil {
		t.Error(err)
	} else {
		files[0].Close()
	}
	in.mu.Lock()
	if n := len(in.parked); n > maxParked {
		t.Errorf("%d sets are parked", n)
	}
	if _, ok := in.parked[token{4}]; ok {
		t.Error("the oldest set is still parked")
	}
	in.mu.Unlock()
}

func sendAs(t *testing.T, c *Channel, tok token, files ...*os.File) {
	t.Helper()
	if err := withDescriptors(files, nil, func(fds []int) error {
		_, err := sendMessage(c.file, tok[:], unix.UnixRights(fds...))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestChannelLostDescriptors(t *testing.T) {
	checkLeaks(t)
	host, in, _ := channel(t)
	r, _ := pipe(t)
	// More than the receiver has room for: the kernel truncates.
	sendAs(t, host, token{1}, r, r, r, r, r, r)
	if _, err := in.claim(t.Context(), token{1}, 3); !errors.Is(err, ErrUnavailable) {
		t.Errorf("truncated: %v", err)
	}
	// None at all.
	if _, err := sendMessage(host.file, make([]byte, tokenSize), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := in.claim(t.Context(), token{}, 1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("none: %v", err)
	}
}

func TestChannelEnd(t *testing.T) {
	checkLeaks(t)
	host, in, ended := channel(t)
	r, _ := pipe(t)
	waiting := make(chan error)
	go func() {
		_, err := in.claim(context.Background(), token{9}, 1)
		waiting <- err
	}()
	sendAs(t, host, token{1}, r) // nobody claims it
	host.Close()
	if err := <-ended; err != io.EOF {
		t.Errorf("got %v", err)
	}
	if err := <-waiting; !errors.Is(err, ErrBroken) {
		t.Errorf("waiting claim: %v", err)
	}
	if _, err := in.claim(t.Context(), token{1}, 1); !errors.Is(err, ErrBroken) {
		t.Errorf("late claim: %v", err)
	}
	if _, err := host.send(t.Context(), []*os.File{r}); !errors.Is(err, ErrEngineLost) {
		t.Errorf("send: %v", err)
	}
}

// The stream may come in any pieces; what is parsed is what was sent.
func FuzzAssembler(f *testing.F) {
	f.Add(bytes.Repeat([]byte{7}, 40), []byte{16, 16, 8})
	f.Add(bytes.Repeat([]byte{0}, 16), []byte{1, 1, 14})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		var a assembler
		for _, cut := range cuts {
			n := min(int(cut), a.want(), len(stream))
			if n == 0 {
				continue
			}
			fds := []int{n}
			if a.have > 0 {
				fds = nil
			}
			if a.feed(stream[:n], fds, cut%7 == 0) {
				_, fds, _ := a.take()
				if len(fds) != 1 {
					t.Fatalf("%d descriptors", len(fds))
				}
			}
			if a.want() < 1 || a.want() > tokenSize {
				t.Fatalf("wants %d", a.want())
			}
			stream = stream[n:]
		}
	})
}

// Control messages come from the kernel, and still must not panic.
func FuzzRights(f *testing.F) {
	f.Add(unix.UnixRights(3, 4, 5))
	f.Add(unix.UnixRights())
	f.Add([]byte{1})
	f.Add([]byte("\x1a\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x000000000000")) // half a descriptor
	f.Fuzz(func(t *testing.T, oob []byte) { parseRights(oob) })
}

// An engine process that is stopped must not stop the host, too.
func TestChannelUnread(t *testing.T) {
	checkLeaks(t)
	host, engineEnd, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	defer engineEnd.Close()
	r, _ := pipe(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	sent := 0
	for err == nil {
		_, err = host.send(ctx, []*os.File{r})
		sent++
	}
	// What stops the host first is either the socket's buffer or the kernel's
	// bound on descriptors underway.
	if err != context.DeadlineExceeded && !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("got %v", err)
	}
	// What was sent whole arrives, and the channel works again.
	in := newInbox()
	done := make(chan struct{})
	go func() { defer close(done); in.receive(engineEnd) }()
	last, err := host.send(t.Context(), []*os.File{r})
	if err != nil {
		t.Fatalf("after %d: %v", sent, err)
	}
	files, err := in.claim(t.Context(), last, 1)
	if err != nil {
		t.Fatal(err)
	}
	files[0].Close()
	host.Close()
	<-done
}
