package gate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// unprivileged is the first port on which a command itself may listen. From there on each name has
// its own listeners, and there is a bound for all of them.
const unprivileged = 1024

// A listener passes on connections.
type listener struct {
	*net.TCPListener
	at    netip.AddrPort
	slots slots
	serve func(*conn)
}

// listen listens inside the sandbox, unless the gate already does.
func (g *Gate) listen(at netip.AddrPort, serve func(*conn)) error {
	g.listening.Lock() // one at a time, or two would listen on one port
	defer g.listening.Unlock()
	known, single := g.listensAt(at)
	if known {
		return nil
	}
	backlog := waiting
	if egress.Fake(at.Addr()) {
		if single >= g.bounds.listeners {
			return fmt.Errorf("the gate listens on %d ports of single names, and on no more", single)
		}
		backlog = max(waiting/(1+single), waitingLeast)
	}
	file, err := g.config.Sockets(domainOf(at), unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	tcp, err := listenTCP(file, at, backlog)
	if err != nil {
		return err
	}
	return g.add(&listener{TCPListener: tcp, at: at, slots: g.out, serve: serve})
}

func domainOf(at netip.AddrPort) int {
	if at.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// add accepts a listener's connections, unless the gate closes.
func (g *Gate) add(l *listener) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosing() {
		l.Close()
		return net.ErrClosed
	}
	g.listeners[l.at] = l
	g.wg.Go(func() { g.accept(l) })
	return nil
}

// listensAt reports whether the gate listens there, and counts the listeners for single names.
func (g *Gate) listensAt(at netip.AddrPort) (known bool, single int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other := range g.listeners {
		if egress.Fake(other.Addr()) {
			single++
		}
	}
	return g.listeners[at] != nil, single
}

func (g *Gate) accept(l *listener) {
	defer l.Close()
	for pause := time.Millisecond; ; {
		tcp, err := l.AcceptTCP()
		if err != nil && g.isClosing() {
			if l.slots == g.in {
				return
			}
			// A connection from the command's last moment may still wait here.
			if tcp, err = acceptWaiting(l.TCPListener); err != nil {
				return
			}
		}
		if err != nil { // no descriptor is left: others end
			select {
			case <-time.After(pause):
				pause = min(2*pause, time.Second)
			case <-g.closing.Done():
			}
			continue
		}
		pause = time.Millisecond
		g.progress.Add(1)
		if !g.admit(l, tcp) {
			tcp.Close()
			return
		}
		c := g.newConn(tcp)
		g.wg.Go(func() {
			defer l.slots.give()
			defer c.end()
			l.serve(c)
		})
	}
}

// admit waits for a place for a connection.
func (g *Gate) admit(l *listener, c *net.TCPConn) bool {
	if l.slots == g.in {
		return g.in.take(g.ctx) // it is not the command's
	}
	at := c.LocalAddr().(*net.TCPAddr).AddrPort()
	_, _, d := g.target(at)
	return g.enter(g.out, d.Name, at.Port(), "connections are open")
}

// enter waits for a slot. Before a wait it reports which limit is reached.
func (g *Gate) enter(s slots, name string, port uint16, full string) bool {
	select {
	case s <- struct{}{}:
		return true
	default:
	}
	g.decided(egress.Decision{Name: name, Port: port, Allowed: true, Reason: fmt.Sprintf("%d %s, and more of them wait", cap(s), full)})
	return s.take(g.ctx)
}

// connect connects to the sandbox's loopback.
func (g *Gate) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	file, err := g.config.Sockets(domainOf(to), unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	return connectTCP(ctx, file, to)
}
