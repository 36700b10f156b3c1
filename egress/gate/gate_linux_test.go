package gate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/test/netns"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// insideEnv says that a test runs in a network namespace of its own, which is the
// sandbox and the host at once.
const insideEnv = "GATE_TEST_INSIDE"

// inside runs the test in a network namespace of its own, with loopback. It is true there.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == "" {
		t.Parallel()
		netns.Again(t, unix.CLONE_NEWNET, 0, insideEnv+"=1")
		return false
	}
	netns.Loopback(t)
	return true
}

// sockets makes sockets right here.
func sockets(_ context.Context, kind Kind) (*os.File, error) {
	family, sort := unix.AF_INET, unix.SOCK_STREAM
	switch kind {
	case TCP6:
		family = unix.AF_INET6
	case UDP4:
		sort = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, sort|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// public is an address that names of the tests have.
const public = "93.184.216.34"

// A world is a gate, the internet outside of it, and a command inside.
type world struct {
	*Gate
	t       *testing.T
	mu      sync.Mutex
	told    []egress.Decision
	more    chan struct{}       // one is in it when told has grown
	answers map[string][]string // of the host's resolver
	servers map[string]string   // by address and port, on loopback
	dialled []netip.AddrPort
	lookups int
}

// newWorld starts a gate. change may change its configuration.
func newWorld(t *testing.T, change func(*Config), rules ...string) *world {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	t.Cleanup(func() { nothingLeft(t, goroutines, files) }) // after all else
	w := &world{t: t, more: make(chan struct{}, 1), answers: map[string][]string{}, servers: map[string]string{}}
	list, err := egress.ParseRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Rules: list, Sockets: sockets, Lookup: w.lookupHost, Dial: w.dialHost, Decided: func(d egress.Decision) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, d)
		select {
		case w.more <- struct{}{}:
		default:
		}
	}}
	if change != nil {
		change(&config)
	}
	if w.Gate, err = Start(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func (w *world) lookupHost(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	list, ok := w.answers[name]
	if !ok {
		for other, addrs := range w.answers {
			if suffix, wild := strings.CutPrefix(other, "*"); wild && strings.HasSuffix(name, suffix) {
				list, ok = addrs, true
			}
		}
	}
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, a := range list {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, nil
}

func (w *world) dialHost(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, to)
	at, ok := w.servers[to.String()]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", at)
}

// serve has a server of the internet answer each connection by f.
func (w *world) serve(at string, f func(*net.TCPConn)) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	w.mu.Lock()
	w.servers[at] = l.Addr().String()
	w.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c.(*net.TCPConn))
			}()
		}
	}()
}

func echo(c *net.TCPConn) { io.Copy(c, c) }

func (w *world) answer(name string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[name] = addrs
}

// resolver asks the gate.
func resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, udp, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, udp, "198.18.0.1:53")
	}}
}

// resolve gives the address of a name inside.
func resolve(t *testing.T, name string) netip.Addr {
	t.Helper()
	addrs, err := resolver().LookupNetIP(t.Context(), "ip", name+".")
	if err != nil || len(addrs) != 1 || !egress.Fake(addrs[0]) {
		t.Fatalf("%s: %v, error %v", name, addrs, err)
	}
	return addrs[0].Unmap()
}

func missing(t *testing.T, name string) {
	t.Helper()
	addrs, err := resolver().LookupNetIP(t.Context(), "ip", name+".")
	if !notFound(err) {
		t.Errorf("%s: %v, error %v", name, addrs, err)
	}
}

// dialName connects as a command does.
func dialName(t *testing.T, name string, port uint16) *net.TCPConn {
	t.Helper()
	return dialAddr(t, netip.AddrPortFrom(resolve(t, name), port))
}

func dialAddr(t *testing.T, at netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { c.Close() })
	return c
}

// decision waits for one that fits, and gives it.
func (w *world) decision(name string, port uint16, allowed bool) egress.Decision {
	w.t.Helper()
	var found egress.Decision
	w.await(fmt.Sprintf("a decision about %s, port %d, allowed %v", name, port, allowed), func(list []egress.Decision) bool {
		i := slices.IndexFunc(list, func(d egress.Decision) bool { return d.Name == name && d.Port == port && d.Allowed == allowed })
		if i >= 0 {
			found = list[i]
		}
		return i >= 0
	})
	return found
}

// await waits until what was told fits.
func (w *world) await(what string, fits func([]egress.Decision) bool) {
	w.t.Helper()
	overdue := time.After(20 * time.Second)
	for {
		w.mu.Lock()
		list := slices.Clone(w.told)
		w.mu.Unlock()
		if fits(list) {
			return
		}
		select {
		case <-w.more:
		case <-overdue:
			w.t.Fatalf("no %s: %+v", what, list)
		}
	}
}

func (w *world) reason(name string, port uint16, want string) {
	w.t.Helper()
	if d := w.decision(name, port, false); d.Reason != want {
		w.t.Errorf("%s, port %d: %q, want %q", name, port, d.Reason, want)
	}
}

// isReset tells that a connection was reset, and that nothing came before.
func isReset(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes, error %v", n, err)
	}
}

// dialReset connects where the gate resets at once, at times before connect has returned.
func dialReset(t *testing.T, at netip.AddrPort) {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at))
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	isReset(t, c)
}

func exchange(t *testing.T, c *net.TCPConn, say, hear string) {
	t.Helper()
	if _, err := io.WriteString(c, say); err != nil {
		t.Fatal(err)
	}
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != hear {
		t.Errorf("%.100q, error %v, want %.100q", got, err, hear)
	}
}

func TestNames(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000", "*.b.example:7000", "nowhere.example")
	w.answer("a.example", public)
	w.answer("x.b.example", public)
	w.answer("b.example", public)
	w.serve(public+":7000", echo)
	exchange(t, dialName(t, "a.example", 7000), "hello", "hello")
	exchange(t, dialName(t, "X.B.example", 7000), "hello", "hello")
	if resolve(t, "a.example") == resolve(t, "x.b.example") || resolve(t, "a.example") != resolve(t, "A.Example") {
		t.Error("names have one address each")
	}
	for _, name := range []string{"b.example", "nowhere.example", "other.example", "a.example.b", "xa.example", "1.1.18.198.in-addr.arpa"} {
		missing(t, name)
	}
	w.reason("b.example", 0, "no rule allows it")
	if d := w.decision("nowhere.example", 0, true); d.Reason == "" {
		t.Errorf("%+v", d)
	}
	d := w.decision("a.example", 7000, true)
	if d.Sent != 5 || d.Received != 5 || d.Address != public || d.Duration <= 0 || d.Reason != "" {
		t.Errorf("%+v", d)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.told {
		if strings.HasSuffix(d.Name, ".arpa") {
			t.Errorf("%+v", d)
		}
	}
}

// secure is a server with TLS.
func (w *world) secure(at string) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "secure ", r.Host) }))
	w.t.Cleanup(s.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[at] = s.Listener.Addr().String()
}

func TestServerName(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example", "b.example")
	w.answer("a.example", public)
	w.answer("b.example", public)
	w.secure(public + ":443")
	handshake := func(name, claim string) error {
		c := tls.Client(dialName(t, name, 443), &tls.Config{ServerName: claim, InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			return err
		}
		fmt.Fprintf(c, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
		if got, _ := io.ReadAll(c); !strings.HasSuffix(string(got), "secure x") {
			t.Errorf("%q", got)
		}
		c.Close()
		return nil
	}
	if err := handshake("a.example", "A.example"); err != nil {
		t.Error(err)
	}
	if d := w.decision("a.example", 443, true); d.Sent < 200 || d.Received < 500 {
		t.Errorf("%+v", d)
	}
	if err := handshake("a.example", "b.example"); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("for another name: %v", err)
	}
	w.reason("a.example", 443, "the server name in TLS is b.example")
	if err := handshake("b.example", ""); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("for no name: %v", err)
	}
	w.reason("b.example", 443, "TLS names no server (SNI)")
	w.mu.Lock()
	w.told = nil
	w.mu.Unlock()
	c := dialName(t, "b.example", 443)
	io.WriteString(c, "SSH-2.0-x\r\n")
	isReset(t, c)
	w.reason("b.example", 443, "the connection does not begin with TLS")
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dialled) != 1 {
		t.Errorf("dialled: %v", w.dialled)
	}
}

func TestHost(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example")
	w.answer("a.example", public)
	w.serve(public+":80", echo)
	request := "GET / HTTP/1.1\r\nHost: A.example.:80\r\n\r\nbody"
	exchange(t, dialName(t, "a.example", 80), request, request)
	c := dialName(t, "a.example", 80)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n")
	isReset(t, c)
	w.reason("a.example", 80, "the Host of the HTTP request is b.example")
	fake := resolve(t, "a.example")
	dialReset(t, netip.AddrPortFrom(fake.Next(), 80))
	w.reason(fake.Next().String(), 80, "no name has this address")
	dialReset(t, netip.AddrPortFrom(loopback4, 80))
}

// expire makes the gate forget what a name's real addresses are.
func (w *world) expire(name string) (fake netip.Addr) {
	w.names.mu.Lock()
	n := w.names.byName[name]
	w.names.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until = time.Now()
	return n.fake
}

// The checks are about each address that is dialled, each time.
func TestPrivate(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000", "in.example:7000 private", "in.example:7001", "meta.example:7000 private", "fake.example:7000")
	w.answer("a.example", "10.0.0.1", "::ffff:127.0.0.1")
	w.answer("in.example", "10.0.0.1")
	w.answer("meta.example", "169.254.169.254")
	w.answer("fake.example", "198.18.7.7")
	w.serve("10.0.0.1:7000", echo)
	w.serve("10.0.0.1:7001", echo)
	for _, name := range []string{"a.example", "meta.example", "fake.example"} {
		missing(t, name)
	}
	w.reason("a.example", 0, "127.0.0.1 is loopback")
	w.reason("meta.example", 0, "169.254.169.254 is "+"a metadata service of a cloud, which gives out credentials")
	if d := w.decision("fake.example", 0, false); !strings.Contains(d.Reason, "another proxy") {
		t.Errorf("%+v", d)
	}
	exchange(t, dialName(t, "in.example", 7000), "hello", "hello")
	if _, err := net.Dial("tcp", netip.AddrPortFrom(resolve(t, "in.example"), 7001).String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without the word: %v", err)
	}
}

func TestRebinding(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	w.serve(public+":7000", echo)
	w.serve("10.0.0.1:7000", echo)
	exchange(t, dialName(t, "a.example", 7000), "hello", "hello")
	w.answer("a.example", "10.0.0.1")
	exchange(t, dialName(t, "a.example", 7000), "hello", "hello") // what was checked
	dialReset(t, netip.AddrPortFrom(w.expire("a.example"), 7000))
	w.reason("a.example", 7000, "10.0.0.1 is private (RFC 1918)")
	missing(t, "a.example")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range w.dialled {
		if to.Addr().String() != public {
			t.Errorf("dialled %v", to)
		}
	}
}

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
	runtime.GC() // pipes that splice kept
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
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

// Ten thousand names cost no more than their addresses, and what is too much is told.
func TestManyNames(t *testing.T) {
	if !inside(t) {
		return
	}
	names := 10_000
	if testing.Short() {
		names = 2_500
	}
	w := newWorld(t, func(c *Config) { c.Names = names }, "*.b.example:80,7000")
	w.answer("*.b.example", public)
	w.serve(public+":7000", echo)
	before := descriptors(t)
	seen := map[netip.Addr]bool{}
	for i := range names {
		var m dnsmessage.Message
		if err := m.Unpack(w.Gate.answer(ask(t, fmt.Sprintf("n%d.b.example.", i), dnsmessage.TypeA, nil))); err != nil || len(m.Answers) != 1 {
			t.Fatalf("%d: %v, error %v", i, m, err)
		}
		seen[netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)] = true
	}
	if len(seen) != names || !seen[netip.MustParseAddr("198.18.1.0")] || seen[nameserver().Addr()] {
		t.Errorf("%d addresses", len(seen))
	}
	if got := descriptors(t) - before; got > maxListeners+10 {
		t.Errorf("%d descriptors", got)
	}
	checkReply(t, "one too many", w.Gate.answer(ask(t, "more.b.example.", dnsmessage.TypeA, nil)), 2, netip.Addr{})
	w.reason("more.b.example", 0, fmt.Sprintf("%d names have been asked for, and no more are given", names))
	if _, err := net.Dial("tcp", "198.18.1.0:7000"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("of a name asked for long ago: %v", err)
	}
	exchange(t, dialName(t, "n0.b.example", 7000), "hello", "hello")
	exchange(t, dialName(t, fmt.Sprintf("n%d.b.example", names-1), 7000), "hello", "hello")
}

// What is too much waits, and is not refused.
func TestManyConnections(t *testing.T) {
	if !inside(t) {
		return
	}
	const most = 8
	all := 10_000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || testing.Short() || limit.Cur < 12_000 {
		all = 1_000
	}
	w := newWorld(t, func(c *Config) { c.Connections = most }, "a.example:7000")
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
		n := 0
		for _, d := range list {
			n += int(d.Connections)
		}
		return n == all && len(list) <= all/10
	})
}

// A hundred connections cost little memory.
func TestMemory(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000")
	w.answer("a.example", public)
	w.serve(public+":7000", func(c *net.TCPConn) { // no splice, so that descriptors are the gate's
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
	if got := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse); got > 8<<20 { // 2.4 MB, and the race detector more than doubles that
		t.Errorf("%d bytes", got)
	}
	runtime.GC() // buffers and pipes that nobody uses
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

func TestHostPort(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example")
	w.answer("a.example", public)
	w.serve("127.0.0.1:5000", echo)
	w.serve("127.0.0.1:80", echo)
	w.serve("[::1]:5001", echo)
	for _, port := range []uint16{5000, 5001, 5002, 80} {
		if err := w.HostPort(port); err != nil {
			t.Fatal(err)
		}
	}
	resolve(t, "a.example") // has the gate listen on port 80 for all names
	for _, port := range []uint16{5000, 5001, 80} {
		for _, addr := range []netip.Addr{loopback4, loopback6} {
			exchange(t, dialAddr(t, netip.AddrPortFrom(addr, port)), "hello", "hello")
		}
	}
	if d := w.decision("localhost", 5000, true); d.Sent != 5*d.Connections || d.Received != d.Sent || d.Address != "127.0.0.1" {
		t.Errorf("%+v", d)
	}
	dialReset(t, netip.AddrPortFrom(loopback4, 5002))
	if d := w.decision("localhost", 5002, true); d.Reason == "" {
		t.Errorf("%+v", d)
	}
	l, err := net.Listen("tcp", "127.0.0.1:5003")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := w.HostPort(5003); err == nil || err.Error() != "port 5003 is in use in the sandbox" {
		t.Errorf("%v", err)
	}
}

func TestPublish(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil)
	publish := func(text string) netip.AddrPort {
		t.Helper()
		p, err := egress.ParsePublish(text)
		if err != nil {
			t.Fatal(err)
		}
		at, err := w.Publish(p)
		if err != nil || at.Port() == 0 || at.Addr() != p.Listen.Addr() {
			t.Fatalf("%v, error %v", at, err)
		}
		return at
	}
	first, second, third := publish("0:6000"), publish("[::1]:0:6001"), publish("0:6002")
	for _, inside := range []string{"127.0.0.1:6000", "[::1]:6001"} {
		l, err := net.Listen("tcp", inside)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go func() {
					defer c.Close()
					io.Copy(c, c)
				}()
			}
		}()
	}
	exchange(t, dialAddr(t, first), "hello", "hello")
	exchange(t, dialAddr(t, second), strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20))
	dialReset(t, third)
	if _, err := w.Publish(egress.Publish{Listen: first, Inside: 1}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) != 0 {
		t.Errorf("%+v", w.told)
	}
}

// Names that are asked for at once share what listens for all of them.
func TestNamesAtOnce(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, func(c *Config) {
		c.Sockets = func(ctx context.Context, kind Kind) (*os.File, error) {
			runtime.Gosched()
			return sockets(ctx, kind)
		}
	}, "*.b.example:80,7000")
	w.answer("*.b.example", public)
	before := descriptors(t)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range 100 {
		wg.Go(func() {
			<-begin
			checkReply(t, "at once", w.Gate.answer(ask(t, fmt.Sprintf("n%d.b.example.", i%10), dnsmessage.TypeAAAA, nil)), 0, netip.Addr{})
			var m dnsmessage.Message
			if err := m.Unpack(w.Gate.answer(ask(t, fmt.Sprintf("n%d.b.example.", i%10), dnsmessage.TypeA, nil))); err != nil || len(m.Answers) != 1 {
				t.Errorf("%v, error %v", m, err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if got := descriptors(t) - before; got != 11 {
		t.Errorf("%d descriptors for 10 names and port 80", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) != 0 {
		t.Errorf("%+v", w.told)
	}
}

// A command that listens on a name's port before the gate can does itself no good.
func TestTaken(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example:7000", "b.example:7000,7001")
	w.answer("a.example", public)
	w.answer("b.example", public)
	w.serve(public+":7001", echo)
	l, err := net.Listen("tcp4", "0.0.0.0:7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	checkReply(t, "a name without ports", w.Gate.answer(ask(t, "a.example.", dnsmessage.TypeA, nil)), 2, netip.Addr{})
	w.reason("a.example", 7000, "something in the sandbox listens on port 7000 itself")
	exchange(t, dialName(t, "b.example", 7001), "hello", "hello")
	w.reason("b.example", 7000, "something in the sandbox listens on port 7000 itself")
}

func TestToldOnce(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil, "a.example")
	for i := range 2 * maxTold {
		for range 2 {
			w.Gate.answer(ask(t, fmt.Sprintf("n%d.example.", i), dnsmessage.TypeA, nil))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.told); n != maxTold+1 || w.told[n-1].Reason != "further refusals are not listed" || w.told[n-2].Name != fmt.Sprintf("n%d.example", maxTold-1) {
		t.Errorf("%d, the last %+v", n, w.told[n-2:])
	}
}

// However many questions come, a bounded number is asked of the host's resolver, and no
// name twice at once.
func TestStorm(t *testing.T) {
	if !inside(t) {
		return
	}
	var (
		mu                 sync.Mutex
		now, highest, same int
	)
	full, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(c *Config) {
		c.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			mu.Lock()
			if now++; now > highest {
				if highest = now; highest == 200 {
					close(full)
				}
			}
			if name == "same.b.example" {
				same++
			}
			mu.Unlock()
			defer func() {
				mu.Lock()
				now--
				mu.Unlock()
			}()
			select {
			case <-release:
			case <-ctx.Done():
			}
			return []netip.Addr{netip.MustParseAddr(public)}, nil
		}
	}, "*.b.example:7000")
	c, err := net.Dial("udp", nameserver().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 50 {
		c.Write(ask(t, "same.b.example.", dnsmessage.TypeA, nil))
	}
	for i := range 1000 {
		c.Write(ask(t, fmt.Sprintf("n%d.b.example.", i), dnsmessage.TypeA, nil))
	}
	<-full
	close(release)
	c.SetDeadline(time.Now().Add(time.Minute))
	for range 200 { // the rest may be lost
		if _, err := c.Read(make([]byte, 1500)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if highest > maxQuestions || same != 1 {
		t.Errorf("%d at once, one name %d times", highest, same)
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
	ended := make(chan bool, 1)
	w.serve(public+":7000", func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		ended <- gone(c)
	})
	c := dialName(t, "a.example", 7000)
	c.Close()
	if !<-ended {
		t.Error("the server saw no reset")
	}
	w.decision("a.example", 7000, true)
}

// What still waits for a place when the command ends goes out as well.
func TestCloseDrainsWhatWaits(t *testing.T) {
	if !inside(t) {
		return
	}
	const all = 30
	w := newWorld(t, func(c *Config) { c.Connections = 1 }, "a.example:7000")
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
	if err := w.HostPort(5000); !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := w.Publish(egress.Publish{Listen: netip.AddrPortFrom(loopback4, 0), Inside: 1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// A resolver that fails for a while takes nothing back that it has said.
func TestResolverFails(t *testing.T) {
	if !inside(t) {
		return
	}
	var broken atomic.Bool
	w := newWorld(t, func(c *Config) {
		lookup := c.Lookup
		c.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			if broken.Load() {
				return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
			}
			return lookup(ctx, name)
		}
	}, "a.example:7000", "b.example:7000")
	w.answer("a.example", public)
	w.serve(public+":7000", echo)
	fake := resolve(t, "a.example")
	broken.Store(true)
	w.expire("a.example")
	exchange(t, dialName(t, "a.example", 7000), "hello", "hello")
	if d := w.decision("a.example", 7000, true); d.Reason != "" {
		t.Errorf("%+v", d)
	}
	checkReply(t, "no answer", w.Gate.answer(ask(t, "b.example.", dnsmessage.TypeA, nil)), 2, netip.Addr{})
	if d := w.decision("b.example", 0, true); !strings.Contains(d.Reason, "server misbehaving") {
		t.Errorf("%+v", d)
	}
	broken.Store(false)
	w.mu.Lock()
	delete(w.answers, "a.example")
	w.mu.Unlock()
	w.expire("a.example")
	w.mu.Lock()
	w.told = nil
	w.mu.Unlock()
	dialReset(t, netip.AddrPortFrom(fake, 7000))
	if d := w.decision("a.example", 7000, true); !strings.Contains(d.Reason, "no such host") {
		t.Errorf("%+v", d)
	}
	missing(t, "a.example")
}

func TestAbsolute(t *testing.T) {
	t.Parallel()
	if got := absolute("a.example") + " " + absolute("nas"); got != "a.example. nas" {
		t.Error(got)
	}
}
