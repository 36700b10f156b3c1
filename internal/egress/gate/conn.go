package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// A conn is a connection of the sandbox, with its connection outside.
type conn struct {
	gate     *Gate
	inner    net.Conn
	decision egress.Decision // reported at the end
	begun    time.Time
	quiet    bool // do not report, or already reported
	asked    bool // a program waits for the proxy's answer

	mu             sync.Mutex
	outer          net.Conn // set after the dial
	ended          bool
	sent, received atomic.Int64
}

func (g *Gate) newConn(inner net.Conn) *conn {
	c := &conn{gate: g, inner: inner, begun: time.Now()}
	if at, ok := inner.LocalAddr().(*net.TCPAddr); ok {
		c.decision.Port = uint16(at.Port)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil { // Close has already ended the others
		c.close(reset)
	}
	g.conns[c] = struct{}{}
	return c
}

// end is the last call for a connection.
func (c *conn) end() {
	c.close(func(half net.Conn) { half.Close() })
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	c.gate.progress.Add(1)
	c.report()
}

// report reports the connection's decision, once.
func (c *conn) report() {
	if c.quiet {
		return
	}
	c.quiet = true
	d := &c.decision
	if d.Allowed {
		d.Sent, d.Received, d.Duration = uint64(c.sent.Load()), uint64(c.received.Load()), time.Since(c.begun)
	}
	c.gate.decided(*d)
}

// close ends both halves.
func (c *conn) close(end func(half net.Conn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	end(c.inner)
	if c.outer != nil {
		end(c.outer)
	}
}

// reset ends the sandbox's connection so that it looks like an error there.
func (c *conn) reset() { reset(c.inner) }

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// A refusal is why there is no connection to a name.
type refusal struct {
	status int // of HTTP, for a program that asks a proxy
	error
}

// forbidden is the status if no rule allows a connection; unreachable, if there is no such name, or
// nothing answers.
const forbidden, unreachable = http.StatusForbidden, http.StatusBadGateway

// refuse ends a connection that leads nowhere, with a reply if the program asked a proxy. It
// reports first, because the command may end as soon as it sees the result.
func (c *conn) refuse(status int, reason string) {
	c.decision.Allowed, c.decision.Reason = status == unreachable, reason
	c.report()
	if c.asked {
		c.part(httpReply(status, c.decision.Target()+": "+reason))
	}
	c.reset()
}

// serveName passes on a connection to an address that stands for a name.
func (g *Gate) serveName(c *conn) {
	at := c.inner.LocalAddr().(*net.TCPAddr).AddrPort()
	n, port, d := g.target(at)
	if c.decision = d; d.Reason != "" {
		c.quiet = at.Addr().Unmap().IsLoopback() // nobody listens there
		c.refuse(forbidden, d.Reason)
		return
	}
	first, ok := c.readGreeting(c.inner, n.name)
	if !ok {
		return
	}
	if g.inject.has(n.name, port.Number) {
		g.inject.serve(c, n, first)
		return
	}
	if outer, ok := g.reach(c, n, port); ok {
		c.pass(outer, first)
	}
}

// target returns the name and the port behind an address of the sandbox, with a decision whose
// Reason says why the rules refuse it.
func (g *Gate) target(at netip.AddrPort) (n *name, port egress.Port, d egress.Decision) {
	d = egress.Decision{Name: at.Addr().Unmap().String(), Port: at.Port()}
	if n = g.names.behind(at.Addr().Unmap()); n == nil {
		d.Reason = "no name has this address"
		return n, port, d
	}
	d.Name = n.name
	port, ok := portAmong(n.ports, d.Port)
	if !ok {
		d.Reason = g.config.Rules.Refusal(n.name, d.Port)
	}
	return n, port, d
}

func portAmong(ports []egress.Port, number uint16) (egress.Port, bool) {
	for _, port := range ports {
		if port.Number == number {
			return port, true
		}
	}
	return egress.Port{}, false
}

// readGreeting reads the first bytes of the connection from r, on a port with a greeting, and compares
// its name with want. It returns false after a refusal.
func (c *conn) readGreeting(r io.Reader, want string) (first []byte, ok bool) {
	greeting := greetings[c.decision.Port]
	if greeting == nil {
		return nil, true
	}
	c.inner.SetReadDeadline(time.Now().Add(greetingTimeout))
	first, err := greeting.check(r, want)
	if err == nil {
		c.inner.SetReadDeadline(time.Time{})
		return first, true
	}
	reason := err.Error()
	switch broken := (*net.OpError)(nil); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = fmt.Sprintf("the connection did not name its server within %v", greetingTimeout)
	case err == io.EOF || err == io.ErrUnexpectedEOF || errors.As(err, &broken):
		c.quiet = len(first) == 0 // opened, and closed again
		reason = "the connection ended before it named its server"
	}
	c.refuse(forbidden, reason)
	return nil, false
}

// reach connects to a port of a name for a connection, which it refuses otherwise; outer then ends with
// the connection.
func (g *Gate) reach(c *conn, n *name, port egress.Port) (outer net.Conn, ok bool) {
	var refused *refusal
	c.decision.Allowed = true
	outer, c.decision.Address, refused = g.connectName(n, port)
	if refused != nil {
		c.refuse(refused.status, refused.Error())
		return nil, false
	}
	return outer, c.join(outer)
}

// connectName connects to a port of a name.
func (g *Gate) connectName(n *name, port egress.Port) (outer net.Conn, address string, refused *refusal) {
	if err := g.lookup(g.ctx, n); err != nil {
		return nil, "", &refusal{unreachable, err}
	}
	list, err := g.addresses(n, port)
	if err != nil {
		return nil, "", &refusal{forbidden, err}
	}
	outer, addr, err := g.dial(list, port.Number)
	if err != nil {
		return nil, "", &refusal{unreachable, err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialled = addr.String()
	return outer, n.dialled, nil
}

// pass sends the bytes already read, and then all others, to a connection that was reached.
func (c *conn) pass(outer net.Conn, first []byte) {
	if len(first) > 0 {
		n, err := outer.Write(first)
		c.sent.Add(int64(n))
		if err != nil {
			c.refuse(unreachable, err.Error())
			return
		}
	}
	c.relay(outer)
}

// stagger is the delay before the next address is tried beside earlier ones (RFC 8305).
const stagger = 300 * time.Millisecond

// A dialResult is the result of an attempt to connect to an address.
type dialResult struct {
	net.Conn
	netip.Addr
	error
}

// dial connects to the first of the addresses that answers.
func (g *Gate) dial(list []netip.Addr, port uint16) (net.Conn, netip.Addr, error) {
	ctx, cancel := context.WithTimeout(g.ctx, dialTimeout)
	results, open := make(chan dialResult), 0
	defer func() {
		cancel()
		g.wg.Go(func() { // close connections that come too late
			for range open {
				if r := <-results; r.error == nil {
					r.Conn.Close()
				}
			}
		})
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for first := error(nil); ; {
		select {
		case r := <-results:
			if open--; r.error == nil {
				return r.Conn, r.Addr, nil
			}
			if first = cmp.Or(first, r.error); len(list)+open == 0 {
				return nil, netip.Addr{}, first
			}
		case <-timer.C:
		}
		if len(list) > 0 {
			addr := list[0]
			list = list[1:]
			open++
			g.wg.Go(func() { results <- g.dialOne(ctx, netip.AddrPortFrom(addr, port)) })
			timer.Reset(stagger)
		}
	}
}

func (g *Gate) dialOne(ctx context.Context, to netip.AddrPort) dialResult {
	if !g.dials.take(ctx) {
		return dialResult{error: ctx.Err()}
	}
	defer g.dials.give()
	c, err := g.config.Dial(ctx, to)
	return dialResult{c, to.Addr(), err}
}

// join makes outer end with the connection; it returns false if that has already ended.
func (c *conn) join(outer net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		outer.Close()
		return false
	}
	c.outer = outer
	c.gate.progress.Add(1)
	return true
}

// relay copies in both directions until both have ended. Each direction ends separately. After the
// gate starts to close, only data from inside counts.
func (c *conn) relay(outer net.Conn) {
	if !c.join(outer) {
		return
	}
	received := make(chan struct{})
	c.gate.wg.Go(func() {
		defer close(received)
		if pump(c.inner, outer, &c.received) == errReset {
			c.reset()
		}
	})
	if pump(outer, c.inner, &c.sent) == errReset {
		reset(outer)
	}
	// A command that has ended only its own direction still receives from the server. If the command is
	// gone, the kernel's probes (keepalive) find that out, and a silent server must not keep the
	// connection open forever.
	tick := time.NewTicker(probing)
	defer tick.Stop()
	for {
		select {
		case <-received:
			return
		case <-c.gate.closing.Done():
			return
		case <-tick.C:
			if wasReset(c.inner) {
				reset(outer)
			}
		}
	}
}

// probing is how often Go makes the kernel probe an idle connection.
const probing = 15 * time.Second

// errReset says that the connection being read ended with an error.
var errReset = errors.New("connection reset")

// buffers hold data on its way. Each connection that is passed on holds two, and each answer of a
// host of credentials one.
var buffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// pump copies from one connection to another, and passes the end on.
func pump(to, from net.Conn, count *atomic.Int64) error {
	buffer := buffers.Get().(*[16 << 10]byte)
	defer buffers.Put(buffer)
	for {
		n, err := from.Read(buffer[:])
		if n > 0 {
			written, failed := to.Write(buffer[:n])
			count.Add(int64(written))
			err = cmp.Or(failed, err)
		}
		switch {
		case err == io.EOF:
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
			return nil
		case err != nil && wasReset(from):
			return errReset
		case err != nil:
			return err
		}
	}
}

func (c *conn) moved() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := uint64(c.sent.Load() + c.received.Load())
	if c.outer != nil && !c.ended {
		sum += delivered(c.outer)
	}
	return sum
}
