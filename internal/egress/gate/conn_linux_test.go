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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
	"golang.org/x/sys/unix"
)

// Servers that speak first, and ends of one direction at a time.
func TestRawTCP(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:22,7000,7001")
	w.answer("a.example", public)
	w.serve(public+":22", func(c *net.TCPConn) {
		io.WriteString(c, "SSH-2.0-server\r\n")
		c.CloseWrite()
		io.Copy(io.Discard, c)
	})
	w.serve(public+":7000", func(c *net.TCPConn) { // hears all before it says anything
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d", len(all))
	})
	heard := make(chan int, 1)
	w.serve(public+":7001", func(c *net.TCPConn) { // ends its own direction first
		io.WriteString(c, "bye")
		c.CloseWrite()
		all, _ := io.ReadAll(c)
		heard <- len(all)
	})
	c := dialName(t, "a.example", 22)
	if got, err := io.ReadAll(c); string(got) != "SSH-2.0-server\r\n" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	const size = 3<<20 + 17
	exchange(t, dialName(t, "a.example", 7000), strings.Repeat("x", size), fmt.Sprint(size))
	c = dialName(t, "a.example", 7001)
	if got, err := io.ReadAll(c); string(got) != "bye" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	io.WriteString(c, strings.Repeat("x", size))
	c.CloseWrite()
	if got := <-heard; got != size {
		t.Errorf("%d bytes after the server's end", got)
	}
	if d := w.decision("a.example", 7000, true); d.Sent != size || d.Received != 7 {
		t.Errorf("%+v", d)
	}
}

// What is passed on is what was sent, both ways at once.
func TestBulk(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	w.serve(public+":7000", echo)
	c := dialName(t, "a.example", 7000)
	sent := make([]byte, 16<<20+17)
	for i := range sent {
		sent[i] = byte(i * i >> 7)
	}
	go func() {
		c.Write(sent)
		c.CloseWrite()
	}()
	if got, err := io.ReadAll(c); !bytes.Equal(got, sent) || err != nil {
		t.Errorf("%d bytes of %d, error %v", len(got), len(sent), err)
	}
}

// What is too much waits, and is not refused.
func TestManyConnections(t *testing.T) {
	if !inside(t) {
		return
	}
	const most = 8
	// Not more: the kernel resets a connection that has waited for a minute outside of the full queue.
	all := 3_000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || testing.Short() || limit.Cur < 4_000 {
		all = 1_000
	}
	w := newWorld(t, bounded(func(b *bounds) { b.connections = most }), "a.example:7000")
	w.answer("a.example", public)
	var open, highest atomic.Int64
	w.serve(public+":7000", func(c *net.TCPConn) {
		for n := open.Add(1); ; {
			if old := highest.Load(); n <= old || highest.CompareAndSwap(old, n) {
				break
			}
		}
		io.Copy(c, c)
		open.Add(-1)
	})
	at := netip.AddrPortFrom(resolve(t, "a.example"), 7000)
	var wg sync.WaitGroup
	for range all {
		wg.Go(func() {
			c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "hello")
			c.CloseWrite()
			if got, err := io.ReadAll(c); string(got) != "hello" {
				t.Errorf("%q, error %v", got, err)
			}
		})
	}
	wg.Wait()
	// A server's connection may last a moment longer than the gate's.
	if n := highest.Load(); n < 2 || n > 2*most {
		t.Errorf("%d at once", n)
	}
	w.await("few decisions about all connections", func(list []egress.Decision) bool {
		n, waited := 0, false
		for _, d := range list {
			if d.Reason == "8 connections are open, and more of them wait" {
				waited = true
			} else {
				n += int(d.Connections)
			}
		}
		return n == all && waited && len(list) <= all/10
	})
}

// A hundred connections cost little memory.
func TestMemory(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	w.serve(public+":7000", func(c *net.TCPConn) {
		b := make([]byte, 4096)
		for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
			c.Write(b[:n])
		}
	})
	at := netip.AddrPortFrom(resolve(t, "a.example"), 7000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	files := descriptors(t)
	for range 100 {
		c := dialAddr(t, at)
		io.WriteString(c, strings.Repeat("x", 100<<10))
		if _, err := io.ReadFull(c, make([]byte, 100<<10)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.GC() // a pool keeps what nobody uses over one
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse); got > 8<<20 { // the race detector more than doubles it
		t.Errorf("%d bytes", got)
	}
	// The client's, the gate's two and the server's.
	if got := descriptors(t) - files; got > 4*100+20 {
		t.Errorf("%d descriptors", got)
	}
}

func TestDeadUpstream(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Addr().String() == "1.1.1.1" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, to)
		}
	}, "a.example:7000", "dead.example:7000", "gone.example:7000", "later.example:7000")
	w.answer("a.example", "1.1.1.1", "1.1.1.2", public)
	w.answer("dead.example", "1.1.1.1")
	w.answer("gone.example", "1.1.1.2", "1.1.1.3")
	w.serve(public+":7000", echo)
	exchange(t, dialName(t, "a.example", 7000), "hello", "hello")
	dialReset(t, netip.AddrPortFrom(resolve(t, "gone.example"), 7000))
	if d := w.decision("gone.example", 7000, true); !strings.Contains(d.Reason, "connection refused") {
		t.Errorf("%+v", d)
	}
	c := dialName(t, "dead.example", 7000)
	w.Close() // does not wait for ever
	isReset(t, c)
	if d := w.decision("dead.example", 7000, true); d.Reason == "" {
		t.Errorf("%+v", d)
	}
}

// A server that does not read holds the command up: nothing piles up in the gate, and
// nothing is lost.
func TestSlowUpstream(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	begin, got := make(chan struct{}), make(chan int64, 1)
	w.serve(public+":7000", func(c *net.TCPConn) {
		<-begin
		n, _ := io.Copy(io.Discard, c)
		got <- n
	})
	c := dialName(t, "a.example", 7000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const most = 256 << 20
	piece, sent := make([]byte, 1<<20), int64(0)
	for sent < most { // until all buffers of the kernel are full
		c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := c.Write(piece)
		sent += int64(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.GC() // a pool keeps what nobody uses over one
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); sent >= most || grown > 4<<20 {
		t.Errorf("%d bytes were taken, %d of them in the gate", sent, grown)
	}
	close(begin)
	c.SetWriteDeadline(time.Now().Add(time.Minute))
	for range 8 {
		n, err := c.Write(piece)
		if sent += int64(n); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseWrite()
	if n := <-got; n != sent {
		t.Errorf("%d of %d bytes went out", n, sent)
	}
}

// A server that ends a connection by an error does so inside as well, and the other way.
func TestReset(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000,7001")
	w.answer("a.example", public)
	w.serve(public+":7000", func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		c.SetLinger(0)
	})
	ended := make(chan error, 1)
	w.serve(public+":7001", func(c *net.TCPConn) {
		io.WriteString(c, "x")
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	c := dialName(t, "a.example", 7000)
	io.WriteString(c, "x")
	isReset(t, c)
	c = dialName(t, "a.example", 7001)
	c.Read(make([]byte, 1))
	c.SetLinger(0)
	c.Close()
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

// Garbage does no harm.
func TestGarbage(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	for _, b := range []string{"", "x", "\x00\x0cx", "\xff\xff" + strings.Repeat("\xff", 1000), strings.Repeat("\x00", 1200)} {
		c, err := net.Dial("udp", nameserver().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, b)
		c.Close()
	}
	resolve(t, "a.example")
}
