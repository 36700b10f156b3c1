package gate

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
	fill()
	for same := 0; same < 5; same++ {
		if now := held() - before; now > got+64<<10 {
			got, same = now, 0
		}
	}
	return got
}

// costs are what one of each of the bounds makes a gate hold at the worst, in bytes. What has no test here is
// reckoned: of 10,000 answers to pings net/http's server keeps each until the client reads it, and
// a session has four streams that were reset for each that is open.
var costs = struct{ connection, injected, session, request, stream, name, listener, question, told int64 }{
	connection: 44 << 10, injected: 270 << 10, session: 1200 << 10, request: 1400 << 10, stream: 32 << 10,
	name: 3 << 9, listener: 2 << 10, question: 40 << 10, told: 2 << 10,
}

// sum is what a gate with such bounds holds at the most.
func (b bounds) sum() int64 {
	n := func(n int, each int64) int64 { return int64(n) * each }
	// Who hears of refusals has them in events as well, of which there are as many.
	return n(b.connections, costs.connection) + n(b.injecting, costs.injected) + n(b.sessions, costs.session+5*int64(b.streams)*costs.stream) +
		n(b.requests, costs.request) + n(b.names, costs.name) + n(b.listeners, costs.listener) + n(b.questions, costs.question) + n(b.reported, costs.told)
}

// The figure in docs/security.md, and that of a limit of memory.
func TestBoundsAddUp(t *testing.T) {
	t.Parallel()
	for memory, most := range map[uint64]int64{0: maxMemory, 8 << 30: maxMemory, 512 << 20: maxMemory, 256 << 20: 64 << 20, 128 << 20: 32 << 20, 64 << 20: 16 << 20, 1: 16 << 20} {
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
		fmt.Sprintf("| %d connections with %d streams each, %d requests at a time |", b.sessions, b.streams, b.requests),
		fmt.Sprintf("| %d KiB, %d KiB |", b.header>>10, maxResponse>>10),
		fmt.Sprintf("| %.0f minute, %.0f minutes |", b.idle.Minutes(), b.stuck.Minutes()),
		fmt.Sprintf("| names with an address | %d |", b.names),
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
				for range 200 { // two records of three, of a hello that is as long as it may be
					io.WriteString(dialAddr(t, at), "\x16\x03\x01\x3c\x00\x01\x00\x7d\x00"+strings.Repeat("\x00", 0x3bfc)+"\x16\x03\x01\x3c\x00"+strings.Repeat("\x00", 0x3c00))
				}
			}
		}},
		{"requests of HTTP/1", 64, costs.injected, func(t *testing.T) func() {
			s := newSecured(t, []string{"http/1.1"}, nil)
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
		{"requests of HTTP/2", atMost.requests, costs.request, func(t *testing.T) func() {
			s := newSecured(t, []string{"http/1.1"}, nil)
			s.serve(public+":443", colluding(s.real))
			return func() {
				for range atMost.requests / atMost.streams {
					h := s.hoard(t)
					for range atMost.streams { // one by one, so that each gets a connection of its own
						h.open(t, 1000)
						h.await(t, 1)
					}
				}
			}
		}},
		{"streams", 4 * atMost.streams, costs.stream, func(t *testing.T) func() {
			s := newSecured(t, []string{"http/1.1"}, nil, bounded(func(b *bounds) { b.requests = 1 }))
			s.serve(public+":443", answering(s.real, ""))
			return func() {
				for range 4 {
					h := s.hoard(t)
					for range h.streams {
						h.open(t, 0)
					}
					h.await(t, 0)
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

// colluding is a server of HTTP/2 that makes its client hold as much as that lets it: each
// connection is good for one request, takes nothing of its body, and is answered with the longest header
// and as much of a body as may come before somebody reads it.
func colluding(certificate tls.Certificate) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		in := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
		if _, err := io.ReadFull(in, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		frames := http2.NewFramer(in, in)
		frames.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					frames.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				block.Reset()
				encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
				for range (maxResponse - 200) / 3040 {
					encoder.WriteField(hpack.HeaderField{Name: "x-long", Value: strings.Repeat("x", 3000)})
				}
				frames.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: block.Bytes(), EndHeaders: true})
				for range download >> 14 {
					frames.WriteData(f.StreamID, false, make([]byte, 1<<14))
				}
			}
		}
	}
}

// A hoarder is a client of HTTP/2 that makes its server hold as much as that lets it: each
// stream has the longest header, by few bytes, and takes nothing of its answer.
type hoarder struct {
	*http2.Framer
	streams, header uint32 // as the server has them
	opened          uint32
	block           bytes.Buffer
	encoder         *hpack.Encoder
	answers         chan string // its status, or how its stream has ended; "ping" is the answer to one
}

func (s *secured) hoard(t *testing.T) *hoarder {
	t.Helper()
	c := tls.Client(dialName(t, "api.example", 443), &tls.Config{RootCAs: s.inside, ServerName: "api.example", NextProtos: []string{"h2"}})
	h := &hoarder{Framer: http2.NewFramer(c, c), answers: make(chan string, 1000)}
	h.encoder = hpack.NewEncoder(&h.block)
	io.WriteString(c, http2.ClientPreface)
	h.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	frame, err := h.ReadFrame()
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok || err != nil {
		t.Fatalf("%v, error %v", frame, err)
	}
	h.streams, _ = settings.Value(http2.SettingMaxConcurrentStreams)
	h.header, _ = settings.Value(http2.SettingMaxHeaderListSize)
	h.WriteSettingsAck()
	h.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go func() {
		defer close(h.answers)
		for {
			frame, err := h.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.MetaHeadersFrame:
				h.answers <- f.PseudoValue("status")
			case *http2.RSTStreamFrame:
				h.answers <- f.ErrCode.String()
			case *http2.PingFrame:
				h.answers <- "ping"
			}
		}
	}()
	return h
}

// open begins a request, with so much of a body that has no end.
func (h *hoarder) open(t *testing.T, body int) {
	t.Helper()
	h.block.Reset()
	size := uint32(0)
	add := func(name, value string) {
		f := hpack.HeaderField{Name: name, Value: value}
		h.encoder.WriteField(f)
		size += f.Size()
	}
	add(":method", "POST")
	add(":scheme", "https")
	add(":authority", "api.example")
	add(":path", "/")
	for size+3038 < h.header {
		add("cookie", strings.Repeat("c", 3000)) // a byte, after the first one
	}
	id := 2*h.opened + 1
	h.opened++
	err := h.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.block.Bytes(), EndStream: body == 0, EndHeaders: true})
	if err == nil && body > 0 {
		err = h.WriteData(id, false, make([]byte, body))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until the server has read everything, and has answered so often.
func (h *hoarder) await(t *testing.T, n int) (answers []string) {
	t.Helper()
	h.WritePing(false, [8]byte{})
	for read := false; !read || len(answers) < n; {
		select {
		case answer, ok := <-h.answers:
			switch {
			case !ok:
				t.Fatalf("the connection ended after %q", answers)
			case answer == "ping":
				read = true
			default:
				answers = append(answers, answer)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q of %d answers", answers, n)
		}
	}
	return answers
}

// Whoever opens more streams, connections and requests than there may be makes a gate hold no
// more, and is told of what waits. Without these bounds, which are net/http's own, the same client makes it
// hold half a GiB.
func TestBoundsOfHTTP2(t *testing.T) {
	if !inside(t) {
		return
	}
	const each = 1 << 20 // of net/http's header
	for _, c := range []struct {
		name   string
		change func(*bounds)
		least  int64
		most   int64
	}{
		{"the gate's", func(*bounds) {}, 1 << 20, int64(atMost.requests)*costs.injected + 2*(costs.session+5*int64(atMost.streams)*costs.stream)},
		{"net/http's", func(b *bounds) { b.header, b.streams, b.requests = each, 250, 250 }, 2 * 60 * each, 400 * each},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSecured(t, []string{"http/1.1"}, nil, bounded(c.change))
			s.serve(public+":443", answering(s.real, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000)))
			got := grown(func() {
				for range 2 {
					h := s.hoard(t)
					for range min(h.streams, 60) {
						h.open(t, 0)
					}
					h.await(t, int(min(h.streams, 60)))
				}
			})
			if got < c.least || got > c.most {
				t.Errorf("%d KiB, want %d to %d", got>>10, c.least>>10, c.most>>10)
			}
		})
	}
}

// What is past a bound is refused, or waits, and is told, once.
func TestPastBounds(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, []string{"http/1.1"}, nil)
	s.serve(public+":443", answering(s.real, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000)))
	first := s.hoard(t)
	for range first.streams + 3 {
		first.open(t, 0)
	}
	if got := first.await(t, int(first.streams)+3); int(first.streams) != atMost.streams || count(got, "200") != atMost.streams || count(got, "PROTOCOL_ERROR") != 3 {
		t.Errorf("%d streams, %q", first.streams, got)
	}
	// One more session than there may be gets HTTP/1, and other requests wait.
	for range atMost.sessions - 1 {
		h := s.hoard(t)
		for range h.streams {
			h.open(t, 0)
		}
		h.await(t, 0)
	}
	more := tls.Client(dialName(t, "api.example", 443), &tls.Config{RootCAs: s.inside, ServerName: "api.example", NextProtos: []string{"h2", "http/1.1"}})
	if err := more.Handshake(); err != nil || more.ConnectionState().NegotiatedProtocol != "http/1.1" {
		t.Errorf("%q, error %v", more.ConnectionState().NegotiatedProtocol, err)
	}
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
	waits := fmt.Sprintf("%d requests of HTTP/2 are not answered yet, and more of them wait", atMost.requests)
	s.await(waits, func(list []egress.Decision) bool {
		return slices.ContainsFunc(list, func(d egress.Decision) bool { return d.Reason == waits && d.Target() == "api.example:443" })
	})
}

// Who takes nothing of what it is sent holds its place for a while, and who has no request. An
// answer that comes in parts takes as long as it takes.
func TestBoundsInTime(t *testing.T) {
	if !inside(t) {
		return
	}
	const stuck = 100 * time.Millisecond
	s := newSecured(t, []string{"h2", "http/1.1"}, func(w http.ResponseWriter, r *http.Request) {
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
	for _, two := range []bool{false, true} {
		if status, got := send(t, s.client(two), "GET", "https://api.example/events", ""); status != 200 || got != "event 0\nevent 1\nevent 2\n" {
			t.Errorf("by HTTP/2 %v: %d %q", two, status, got)
		}
		ends("end of a connection without a request")
		config := &tls.Config{RootCAs: s.inside, ServerName: "api.example"}
		if two {
			config.NextProtos = []string{"h2"}
		}
		c := tls.Client(dialName(t, "api.example", 443), config)
		if !two {
			io.WriteString(c, "GET /endless HTTP/1.1\r\nHost: api.example\r\n\r\n")
		} else {
			io.WriteString(c, http2.ClientPreface)
			frames := http2.NewFramer(c, c)
			frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
			frames.WriteWindowUpdate(0, 1<<30)
			var block bytes.Buffer
			encoder := hpack.NewEncoder(&block)
			for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "api.example"}, {":path", "/endless"}} {
				encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
			}
			frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
		}
		ends("end of a connection of which nothing is taken")
	}
}

func count(list []string, of string) (n int) {
	for _, s := range list {
		if s == of {
			n++
		}
	}
	return n
}
