package gate

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// held is what this process has in its heap and in stacks.
func held() int64 {
	runtime.GC()
	runtime.GC() // a pool keeps what nobody uses over one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// grown is by how much fill makes that more, once it does not grow any more. It has the client in it, and
// the server, which keep as little as they can.
func grown(fill func()) (got int64) {
	before := held()
	for same := 0; same < 5; same++ { // what the test before has left may end only now
		if now := held(); now < before-64<<10 {
			before, same = now, 0
		}
	}
	fill()
	for same := 0; same < 5; same++ {
		if now := held() - before; now > got+64<<10 {
			got, same = now, 0
		}
	}
	return got
}

// costs are what one of each of the bounds makes a gate hold at the worst, in bytes.
var costs = struct{ connection, injected, name, listener, question, told int64 }{
	connection: 44 << 10, injected: 270 << 10, name: 3 << 9, listener: 2 << 10, question: 40 << 10, told: 2 << 10,
}

// sum is what a gate with such bounds holds at the most.
func (b bounds) sum() int64 {
	n := func(n int, each int64) int64 { return int64(n) * each }
	// Who hears of refusals has them in events as well, of which there are as many.
	return n(b.connections, costs.connection) + n(b.injecting, costs.injected) +
		n(b.names, costs.name) + n(b.listeners, costs.listener) + n(b.questions, costs.question) + n(b.reported, costs.told)
}

// The figure in docs/security.md, and that of a limit of memory.
func TestBoundsAddUp(t *testing.T) {
	t.Parallel()
	for memory, most := range map[uint64]int64{0: maxMemory, 8 << 30: maxMemory, 256 << 20: maxMemory, 128 << 20: 32 << 20, 64 << 20: 16 << 20, 1: 6 << 20} {
		if sum := boundsOf(memory).sum(); sum > most || sum < most*8/10 {
			t.Errorf("of a limit of %d bytes: %d, want at most %d and not much less", memory, sum, most)
		}
	}
}

// docs/security.md has the numbers.
func TestBoundsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	b := &atMost
	for _, want := range []string{
		fmt.Sprintf("at most %d MiB for its network", maxMemory>>20),
		fmt.Sprintf("a quarter of that limit, and not less than %d MiB", (boundsOf(1).sum()+1<<20-1)>>20),
		fmt.Sprintf("| %d, %d of them to hosts of credentials |", b.connections, b.injecting),
		fmt.Sprintf("| attempts to connect outside | %d |", 2*b.connections),
		fmt.Sprintf("| %d KiB, %d KiB |", b.header>>10, maxResponse>>10),
		fmt.Sprintf("| %.0f minute, %.0f minutes |", b.idle.Minutes(), b.stuck.Minutes()),
		fmt.Sprintf("| allowed names asked for | %d |", b.names),
		fmt.Sprintf("| ports of names from %d on | %d |", unprivileged, b.listeners),
		fmt.Sprintf("| questions for names | %d |", b.questions),
		fmt.Sprintf("| refusals, each told once | %d |", b.reported),
		fmt.Sprintf("up to %d that wait at each port", waiting),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// What one of each costs is what was reckoned with: neither more, nor much less, which would mean that
// a test fills nothing.
func TestBoundsCost(t *testing.T) {
	if !inside(t) {
		return
	}
	header := "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", maxResponse-100) + "\r\nContent-Length: 100000000\r\n\r\n"
	for _, c := range []struct {
		of    string
		n     int
		cost  int64
		world func(t *testing.T) (fill func())
	}{
		{"greetings", 200, costs.connection, func(t *testing.T) func() {
			w := newWorld(t, nil, "a.example")
			w.answer("a.example", public)
			at := netip.AddrPortFrom(resolve(t, "a.example"), 443)
			return func() {
				for range 200 { // a record that is as long as it may be, but for its last byte
					io.WriteString(dialAddr(t, at), "\x16\x03\x01\x48\x00"+strings.Repeat("\x00", maxRecord-1))
				}
			}
		}},
		{"requests", 64, costs.injected, func(t *testing.T) func() {
			s := newSecured(t, nil)
			s.serve(public+":443", answering(s.real, header+strings.Repeat("x", 1<<20)))
			return func() {
				for range 64 {
					c := tls.Client(dialName(t, "api.example", 443), &tls.Config{RootCAs: s.inside, ServerName: "api.example"})
					io.WriteString(c, "GET / HTTP/1.1\r\nHost: api.example\r\nX: "+strings.Repeat("x", maxRequest+2000)+"\r\n\r\n")
					if _, err := c.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
		{"names", 2000, costs.name, func(t *testing.T) func() {
			w := newWorld(t, nil, "*.b.example:80")
			var addresses []string
			for i := range 2 * maxAddresses {
				addresses = append(addresses, fmt.Sprintf("2606:4700::%x", i+1))
			}
			w.answer("*.b.example", addresses...)
			long := strings.Repeat(strings.Repeat("x", 55)+".", 4) + "b.example."
			return func() {
				for i := range 2000 {
					w.Gate.answer(ask(t, fmt.Sprintf("n%d.%s", i, long), dnsmessage.TypeA, nil))
				}
			}
		}},
		{"listeners", 500, costs.name + costs.listener, func(t *testing.T) func() {
			w := newWorld(t, nil, "*.b.example:7000")
			w.answer("*.b.example", public)
			return func() {
				for i := range 500 {
					w.Gate.answer(ask(t, fmt.Sprintf("n%d.b.example.", i), dnsmessage.TypeA, nil))
				}
			}
		}},
		{"questions", 200, costs.question, func(t *testing.T) func() {
			newWorld(t, func(c *Config) {
				c.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
					return (&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
						return (&net.Dialer{}).DialContext(ctx, "udp", "127.0.0.1:9") // where nobody answers
					}}).LookupNetIP(ctx, "ip", name+".")
				}
			}, "*.b.example:7000")
			silent, err := net.ListenPacket("udp", "127.0.0.1:9")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { silent.Close() })
			c, err := net.Dial("udp", nameserver().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return func() {
				for i := range 200 {
					c.Write(ask(t, fmt.Sprintf("n%d.b.example.", i), dnsmessage.TypeA, nil))
				}
			}
		}},
		{"refusals", atMost.reported, costs.told, func(t *testing.T) func() {
			w := newWorld(t, nil)
			return func() {
				for i := range 3 * atMost.reported {
					w.decided(egress.Decision{Name: fmt.Sprint(i, strings.Repeat("n", 10_000)), Reason: fmt.Sprint(i, strings.Repeat("r", 10_000))})
				}
			}
		}},
	} {
		t.Run(c.of, func(t *testing.T) {
			got := grown(c.world(t))
			if each := got / int64(c.n); each > c.cost*raced || each < c.cost/3 {
				t.Errorf("%d of them hold %d KiB, each %d bytes, want %d", c.n, got>>10, each, c.cost)
			}
		})
	}
}

// answering is a server that answers one request of each connection as soon as it begins, and keeps
// nothing of it.
func answering(certificate tls.Certificate, answer string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		in := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}})
		if _, err := in.Read(make([]byte, 1)); err != nil {
			return
		}
		go io.WriteString(in, answer)
		io.Copy(io.Discard, in)
	}
}

// A header past its bound is refused, and what waits is told.
func TestPastBounds(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, nil)
	for _, c := range []struct{ header, answer, status string }{
		{strings.Repeat("x", 2*maxRequest), "", "HTTP/1.1 431 "},
		{strings.Repeat("x", maxRequest/2), strings.Repeat("x", maxResponse/2), "HTTP/1.1 200 "},
		{"", strings.Repeat("x", 2*maxResponse), "HTTP/1.1 502 "},
	} {
		s.serve(public+":443", answering(s.real, "HTTP/1.1 200 OK\r\nX: "+c.answer+"\r\n\r\n"))
		c1 := tls.Client(dialName(t, "api.example", 443), &tls.Config{RootCAs: s.inside, ServerName: "api.example"})
		io.WriteString(c1, "GET / HTTP/1.1\r\nHost: api.example\r\nX: "+c.header+"\r\n\r\n")
		status := make([]byte, len(c.status))
		if _, err := io.ReadFull(c1, status); err != nil || string(status) != c.status {
			t.Errorf("%q, error %v, want %q", status, err, c.status)
		}
	}
}

// Who takes nothing of what it is sent holds its place for a while, and who has no request. An
// answer that comes in parts takes as long as it takes.
func TestBoundsInTime(t *testing.T) {
	if !inside(t) {
		return
	}
	const stuck = 100 * time.Millisecond
	s := newSecured(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for piece := make([]byte, 1<<20); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		case "/events":
			for i := range 3 {
				fmt.Fprintf(w, "event %d\n", i)
				http.NewResponseController(w).Flush()
				time.Sleep(3 * stuck) // the event's, and not to wait for anything
			}
		}
	}, bounded(func(b *bounds) { b.idle, b.stuck = stuck, stuck }))
	over := uint64(0)
	ends := func(what string) {
		t.Helper()
		s.await(what, func(list []egress.Decision) bool {
			n := uint64(0)
			for _, d := range list {
				if d.Allowed && d.Target() == "api.example:443" {
					n += d.Connections
				}
			}
			ended := n > over // also two, where a client that was too slow has tried once more
			over = n
			return ended
		})
	}
	if status, got := send(t, s.client(), "GET", "https://api.example/events", ""); status != 200 || got != "event 0\nevent 1\nevent 2\n" {
		t.Errorf("%d %q", status, got)
	}
	ends("end of a connection without a request")
	c := tls.Client(dialName(t, "api.example", 443), &tls.Config{RootCAs: s.inside, ServerName: "api.example"})
	io.WriteString(c, "GET /endless HTTP/1.1\r\nHost: api.example\r\n\r\n")
	ends("end of a connection of which nothing is taken")
}
