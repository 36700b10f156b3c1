package gate

import (
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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sbxhost/sbxhost/internal/egress"
)

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

// Thousands of names cost no more than their addresses, and what is too much is told.
func TestManyNames(t *testing.T) {
	if !inside(t) {
		return
	}
	names := atMost.names
	if testing.Short() {
		names = 2_500
	}
	w := newWorld(t, bounded(func(b *bounds) { b.names, b.reported = names, 2*names }), "*.b.example:80,7000")
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
	if got := descriptors(t) - before; got > atMost.listeners+10 {
		t.Errorf("%d descriptors", got)
	}
	checkReply(t, "one too many", w.Gate.answer(ask(t, "more.b.example.", dnsmessage.TypeA, nil)), 2, netip.Addr{})
	w.reason("more.b.example", 0, fmt.Sprintf("%d names have been asked for, and no more are given", names))
	last := fmt.Sprintf("n%d.b.example", atMost.listeners)
	if d := w.decision(last, 7000, true); d.Reason != fmt.Sprintf("the gate listens on %d ports of single names, and on no more", atMost.listeners) {
		t.Errorf("%+v", d)
	}
	if _, err := net.Dial("tcp", netip.AddrPortFrom(resolve(t, last), 7000).String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("of a name without a listener: %v", err)
	}
	exchange(t, dialName(t, "n0.b.example", 7000), "hello", "hello")
	exchange(t, dialName(t, fmt.Sprintf("n%d.b.example", atMost.listeners-1), 7000), "hello", "hello")
}

// Names that are asked for at once share what listens for all of them.
func TestNamesAtOnce(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, func(c *Config) {
		c.Sockets = func(domain, kind int) (*os.File, error) {
			runtime.Gosched()
			return sockets(domain, kind)
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
	var late []egress.Decision
	for i := range 2 * atMost.reported {
		if i == 1 { // who comes later hears of what was told before, if it happens again
			w.Hear(func(d egress.Decision) { late = append(late, d) })
			w.Gate.answer(ask(t, "n0.example.", dnsmessage.TypeA, nil))
		}
		for range 2 {
			w.Gate.answer(ask(t, fmt.Sprintf("n%d.example.", i), dnsmessage.TypeA, nil))
		}
	}
	w.mu.Lock()
	if n := len(w.told); n != atMost.reported+1 || w.told[n-1].Reason != "further refusals are not listed" || w.told[n-2].Name != fmt.Sprintf("n%d.example", atMost.reported-1) {
		t.Errorf("%d, the last %+v", n, w.told[n-2:])
	}
	w.mu.Unlock()
	w.Close()
	sum := w.told[atMost.reported].Connections + w.told[len(w.told)-1].Connections
	if n := len(w.told); n != atMost.reported+2 || sum != 2*uint64(atMost.reported) {
		t.Errorf("%d, the last %+v: %d are counted", n, w.told[n-1], sum)
	}
	if late[0].Name != "n0.example" || len(late) != atMost.reported+2 {
		t.Errorf("who came later heard %d, first %+v", len(late), late[0])
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
				if highest = now; highest == 100 {
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
	for range 100 { // the rest may be lost
		if _, err := c.Read(make([]byte, 1500)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if highest > atMost.questions || same != 1 {
		t.Errorf("%d at once, one name %d times", highest, same)
	}
}
