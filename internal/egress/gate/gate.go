package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// Sockets makes an unbound socket in the sandbox's network namespace, with a domain and a type of
// socket(2). A raw one receives TCP; the gate looks only at resets.
type Sockets func(domain, kind int) (*os.File, error)

// Config is the configuration of a gate.
type Config struct {
	Rules egress.Rules
	// Sockets must be set, except for a Proxy with a Listener.
	Sockets Sockets
	// HostPorts are ports of the sandbox, on 127.0.0.1 and [::1], that lead to the same ports of
	// the host's loopback.
	HostPorts []uint16
	// Proxy replaces the nameserver; nil means a nameserver.
	Proxy *Proxy
	// Inject puts credentials into requests; nil means none. It must be nil for a Proxy.
	Inject *Injection
	// Lookup asks the host's resolver; nil means net.DefaultResolver, without its search domains
	// for a name with a dot.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects outside of the sandbox, to addresses of names and to the host's loopback
	// (HostPorts); nil means net.Dialer.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// OwnAddresses returns the machine's own addresses; nil means those of its interfaces.
	OwnAddresses func() []netip.Prefix
	// Resets makes the gate ask Sockets for a raw one. With it, the gate sees which connections to
	// ports without a listener the kernel refuses.
	Resets bool
	// Memory is the limit of the command's memory, in bytes; 0 means none. The gate holds at most a
	// quarter of it.
	Memory uint64

	bounds *bounds // for a test; nil means boundsOf(Memory)
}

// Limits of time; see bounds for others. A command can use up each of them without harm to anybody.
const (
	lookupTimeout   = 10 * time.Second
	dialTimeout     = 30 * time.Second
	greetingTimeout = 30 * time.Second
	// drainTimeout is how long Close waits for connections without progress.
	drainTimeout = 5 * time.Second
)

// A Gate serves one sandbox.
type Gate struct {
	// Unseen is why a gate with Resets sees none. It then does not report refused connections to ports
	// that no rule has. It may be nil.
	Unseen error

	config Config
	// The end of ctx ends everything.
	ctx    context.Context
	cancel context.CancelFunc
	// closing ends when the sandbox has ended: nothing new comes from there, nor goes there.
	closing context.Context
	close   context.CancelFunc
	once    sync.Once
	wg      sync.WaitGroup

	bounds   bounds
	out, in  slots
	dials    slots // attempts to connect outside
	names    names
	log      log
	inject   *injector // nil without credentials
	resets   resets
	progress atomic.Uint64 // changes with any progress

	listening sync.Mutex
	proxyAt   netip.AddrPort // set by Start
	mu        sync.Mutex
	listeners map[netip.AddrPort]*listener
	conns     map[*conn]struct{}
}

// Start returns after all listeners in the sandbox are ready. If it cannot have a port of
// HostPorts, the error is a [HostPortError].
func Start(config Config) (*Gate, error) {
	if config.Sockets == nil && (config.Proxy == nil || config.Proxy.Listener == nil) {
		return nil, errors.New("gate: no Sockets")
	}
	if config.Inject != nil && config.Proxy != nil {
		return nil, errors.New("gate: a proxy injects no credentials")
	}
	if config.Lookup == nil {
		config.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", absolute(name))
		}
	}
	if config.Dial == nil {
		config.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", to.String())
		}
	}
	if config.OwnAddresses == nil {
		config.OwnAddresses = interfaceAddresses
	}
	b := boundsOf(config.Memory)
	if config.bounds != nil {
		b = *config.bounds
	}
	g := &Gate{
		config: config, bounds: b,
		out: make(slots, b.connections), in: make(slots, b.connections), dials: make(slots, 2*b.connections),
		names: names{byName: map[string]*name{}, byFake: map[netip.Addr]*name{}}, log: log{hearers: map[*hearer]bool{}},
		listeners: map[netip.AddrPort]*listener{}, conns: map[*conn]struct{}{},
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.closing, g.close = context.WithCancel(g.ctx)
	g.inject = newInjector(g, config.Inject)
	if config.Resets {
		g.Unseen = g.watchResets()
	}
	// Before the proxy, which gets any free port from the kernel.
	for _, port := range config.HostPorts {
		if err := g.hostPort(port); err != nil {
			g.Close()
			return nil, &HostPortError{port, err}
		}
	}
	begin, what := g.serveNames, "nameserver"
	if config.Proxy != nil {
		begin, what = g.beginProxy, "proxy"
	}
	if err := begin(); err != nil {
		g.Close()
		return nil, fmt.Errorf("the sandbox's %s: %w", what, err)
	}
	return g, nil
}

// absolute keeps the host's resolver from trying a name below its search domains, where it is
// another name. A name of one part has no other meaning.
func absolute(name string) string {
	if strings.Contains(name, ".") {
		return name + "."
	}
	return name
}

// interfaceAddresses returns the addresses of the machine's interfaces. If it cannot read them, it
// returns a range with every address.
func interfaceAddresses() (list []netip.Prefix) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addr := prefix.Addr().Unmap()
			list = append(list, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return list
}

// A HostPortError says why the sandbox cannot have a port of the host.
type HostPortError struct {
	Port uint16
	Err  error
}

func (e *HostPortError) Error() string {
	return fmt.Sprintf("port %d of the sandbox: %v", e.Port, e.Err)
}

func (e *HostPortError) Unwrap() error { return e.Err }

func (g *Gate) hostPort(port uint16) error {
	for _, to := range []netip.AddrPort{netip.AddrPortFrom(loopback4, port), netip.AddrPortFrom(loopback6, port)} {
		err := g.listen(to, g.serveHostPort)
		if to.Addr() == loopback6 && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)) {
			return nil // no IPv6 here
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

func (g *Gate) serveHostPort(c *conn) {
	c.decision.Name, c.decision.Allowed = "localhost", true
	outer, addr, err := g.dial([]netip.Addr{loopback4, loopback6}, c.decision.Port)
	if err != nil {
		c.refuse(unreachable, err.Error())
		return
	}
	c.decision.Address = addr.String()
	c.relay(outer)
}

// Publish listens on the host, and leads to the sandbox's loopback. It returns the address on which
// it listens. It makes no decisions.
func (g *Gate) Publish(p egress.Publish) (netip.AddrPort, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(p.Listen))
	if err != nil {
		return netip.AddrPort{}, err
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return at, g.add(&listener{TCPListener: l, at: at, slots: g.in, serve: func(c *conn) { g.serveInside(c, p.Inside) }})
}

func (g *Gate) serveInside(c *conn, port uint16) {
	c.quiet = true
	// Do not stop at closing: a command can serve one connection and end before the gate has
	// noticed its connection, and the command's answer is on its way.
	ctx, cancel := context.WithTimeout(g.ctx, dialTimeout)
	defer cancel()
	inside, err := g.connect(ctx, netip.AddrPortFrom(loopback4, port))
	if errors.Is(err, syscall.ECONNREFUSED) {
		inside, err = g.connect(ctx, netip.AddrPortFrom(loopback6, port))
	}
	if err != nil {
		c.reset()
		return
	}
	outside := c.inner
	c.mu.Lock()
	c.inner = inside
	c.mu.Unlock()
	c.relay(outside)
}

// Close ends the gate. The sandbox has ended before, or ends by it: Close first sends data on its
// way out, as long as there is progress. When Close returns, nothing is left.
func (g *Gate) Close() error {
	g.once.Do(func() {
		g.mu.Lock()
		g.close()
		for _, l := range g.listeners {
			l.SetDeadline(time.Unix(1, 0))
		}
		g.mu.Unlock()
		done := make(chan struct{})
		go func() {
			g.wg.Wait()
			close(done)
		}()
		g.drain(done)
		g.mu.Lock()
		g.cancel()
		for c := range g.conns {
			c.close(reset)
		}
		g.mu.Unlock()
		<-done
		g.inject.close()
		g.resets.close()
		g.log.close()
	})
	return nil
}

// drain waits until there is no progress any more.
func (g *Gate) drain(done <-chan struct{}) {
	tick := time.NewTicker(drainTimeout / 20)
	defer tick.Stop()
	last, since := g.moved(), time.Now()
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			if moved := g.moved(); moved != last {
				last, since = moved, now
			} else if now.Sub(since) >= drainTimeout {
				return
			}
		}
	}
}

// moved changes whenever a connection makes progress.
func (g *Gate) moved() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := g.progress.Load()
	for c := range g.conns {
		sum += c.moved()
	}
	return sum
}

func (g *Gate) isClosing() bool { return g.closing.Err() != nil }

// slots limit how many goroutines do something at once.
type slots chan struct{}

// take waits for a slot.
func (s slots) take(ctx context.Context) bool {
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s slots) give() { <-s }
