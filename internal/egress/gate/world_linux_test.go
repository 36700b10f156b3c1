package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/testing/netns"
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
func sockets(domain, kind int) (*os.File, error) {
	protocol := 0
	if kind == unix.SOCK_RAW {
		protocol = unix.IPPROTO_TCP
	}
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// public is an address that names of the tests have.
const public = "93.184.216.34"

// bounded changes the bounds of a gate.
func bounded(change func(*bounds)) func(*Config) {
	return func(c *Config) {
		b := atMost
		change(&b)
		c.bounds = &b
	}
}

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
	config := Config{Rules: list, Sockets: sockets, Lookup: w.lookupHost, Dial: w.dialHost}
	hear := func(d egress.Decision) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, d)
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
	if change != nil {
		change(&config)
	}
	if w.Gate, err = Start(config); err != nil {
		t.Fatal(err)
	}
	w.Hear(hear)
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
	overdue := time.After(time.Minute)
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
