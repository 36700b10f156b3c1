package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/egress"
)

func TestClose(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	const size = 2 << 20
	got, begin := make(chan int, 1), make(chan struct{})
	w.serve(public+":7000", func(c *net.TCPConn) {
		<-begin
		all, _ := io.ReadAll(c)
		got <- len(all)
	})
	c := dialName(t, "a.example", 7000)
	c.Write(bytes.Repeat([]byte("x"), size))
	c.Close()
	closed := make(chan struct{})
	go func() {
		w.Close()
		close(closed)
	}()
	<-w.closing.Done()
	close(begin)
	<-closed
	if n := <-got; n != size {
		t.Errorf("%d bytes went out", n)
	}
	if d := w.decision("a.example", 7000, true); d.Sent != size {
		t.Errorf("%+v", d)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// nothingLeft waits for what the runtime and the kernel do a moment later.
func nothingLeft(t *testing.T, goroutines, files int) {
	t.Helper()
	runtime.GC() // files that nobody has closed
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		g, f := runtime.NumGoroutine(), descriptors(t)
		if g <= goroutines && f <= files {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, were %d; %d descriptors, were %d\n%s", g, goroutines, f, files, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.GC()
	}
}

// hungUp waits until both directions of a connection have ended, as by a reset.
func hungUp(t *testing.T, c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	raw.Control(func(fd uintptr) {
		for err = unix.EINTR; err == unix.EINTR; {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, -1) // POLLERR and POLLHUP are always reported
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// A server that never ends a connection holds no place for a command that is gone.
func TestGone(t *testing.T) {
	if !inside(t) {
		return
	}
	if testing.Short() {
		t.Skip("a probe goes out after 15 seconds")
	}
	// The kernel keeps what is left of a closed connection for a minute.
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_fin_timeout", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	ended := make(chan struct{})
	w.serve(public+":7000", func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		hungUp(t, c) // it never ends its own direction
		close(ended)
	})
	c := dialName(t, "a.example", 7000)
	c.Close()
	<-ended
	w.decision("a.example", 7000, true)
}

// What still waits for a place when the command ends goes out as well.
func TestCloseDrainsWhatWaits(t *testing.T) {
	if !inside(t) {
		return
	}
	const all = 30
	w := newWorld(t, bounded(func(b *bounds) { b.connections = 1 }), "a.example:7000")
	w.answer("a.example", public)
	got, first, begin := make(chan string, all), make(chan struct{}, all), make(chan struct{})
	w.serve(public+":7000", func(c *net.TCPConn) {
		first <- struct{}{}
		<-begin
		text, _ := io.ReadAll(c)
		got <- string(text)
	})
	at := netip.AddrPortFrom(resolve(t, "a.example"), 7000)
	for i := range all {
		c := dialAddr(t, at)
		fmt.Fprintf(c, "message %d", i)
		c.Close()
	}
	<-first
	done := make(chan struct{})
	go func() {
		w.Close()
		close(done)
	}()
	<-w.closing.Done()
	close(begin)
	<-done
	seen := map[string]bool{}
	for range all {
		seen[<-got] = true
	}
	for i := range all {
		if !seen[fmt.Sprintf("message %d", i)] {
			t.Errorf("message %d is lost", i)
		}
	}
	if err := w.hostPort(5000); !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := w.Publish(egress.Publish{Listen: netip.AddrPortFrom(loopback4, 0), Inside: 1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
