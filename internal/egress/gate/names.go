package gate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/egress"
)

const (
	// fresh is how long a lookup is valid, and stale how long a failed one is.
	fresh, stale = lifetime * time.Second, time.Second
	// maxAddresses is how many addresses of one name the gate looks at.
	maxAddresses = 16
)

// names are the allowed names that commands have asked for.
type names struct {
	mu     sync.Mutex
	byName map[string]*name
	byFake map[netip.Addr]*name
}

// A name that a rule allows.
type name struct {
	name  string
	ports []egress.Port
	fake  netip.Addr

	mu    sync.Mutex // held during a lookup, so that there is one at a time
	until time.Time  // how long the result is valid
	found []netip.Addr
	err   error // of the lookup

	dialled string // the address of the last connection
}

// at returns a known name, or makes it. The error says that there are too many.
func (ns *names) at(text string, ports []egress.Port, most int) (*name, error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.byName[text]; n != nil {
		return n, nil
	}
	if len(ns.byName) >= most {
		return nil, fmt.Errorf("%d names have been asked for, and no more are given", most)
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 198<<24|18<<16|1<<8+uint32(len(ns.byName)))
	n := &name{name: text, ports: ports, fake: netip.AddrFrom4(b)}
	ns.byName[text], ns.byFake[n.fake] = n, n
	return n, nil
}

func (ns *names) behind(fake netip.Addr) *name {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.byFake[fake]
}

// lookup looks up a name's addresses, unless that was done a moment ago.
func (g *Gate) lookup(ctx context.Context, n *name) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Now().Before(n.until) {
		return n.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := g.config.Lookup(limited, n.name)
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "no such host", Name: n.name, IsNotFound: true}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		n.until, n.found, n.err = time.Now().Add(fresh), found[:min(len(found), maxAddresses)], nil
		return nil
	}
	n.until = time.Now().Add(stale)
	if len(n.found) == 0 || notFound(err) {
		n.found, n.err = nil, err
	} // else the earlier result will do
	return n.err
}

func notFound(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

// addresses returns the addresses of a name to dial for a port, or why there are none.
func (g *Gate) addresses(n *name, port egress.Port) (list []netip.Addr, err error) {
	own := g.config.OwnAddresses()
	n.mu.Lock()
	defer n.mu.Unlock()
	err = n.err
	for _, addr := range n.found {
		addr = addr.Unmap()
		refused := egress.CheckAddress(addr, port.Private, own)
		switch {
		case refused == nil:
			list = append(list, addr)
		case egress.Fake(addr):
			err = fmt.Errorf("the host's resolver answers with %s, which stands for a name in another proxy of this kind; it must give real addresses", addr)
		default:
			err = refused
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	return nil, err
}

// answer replies to a DNS message; nil means no reply.
func (g *Gate) answer(message []byte) []byte {
	q, reply, ok := parseQuestion(message)
	if !ok {
		return reply
	}
	ports := g.config.Rules.Ports(q.name)
	if len(ports) == 0 {
		if !q.reverse() {
			name := q.name
			if name == "" {
				name = shown(q.asked.Name.String())
			}
			g.decided(egress.Decision{Name: name, Reason: g.config.Rules.Refusal(q.name, 0)})
		}
		return q.reply(dnsmessage.RCodeNameError, netip.Addr{})
	}
	if q.asked.Type != dnsmessage.TypeA && q.asked.Type != dnsmessage.TypeALL {
		return q.reply(dnsmessage.RCodeSuccess, netip.Addr{})
	}
	n, err := g.names.at(q.name, ports, g.bounds.names)
	if err != nil {
		g.decided(egress.Decision{Name: q.name, Reason: err.Error()})
		return q.reply(dnsmessage.RCodeServerFailure, netip.Addr{})
	}
	fake, code := g.open(n)
	return q.reply(code, fake)
}

// open looks a name up and listens on its ports, before anybody learns its address.
func (g *Gate) open(n *name) (none netip.Addr, _ dnsmessage.RCode) {
	if err := g.lookup(g.closing, n); g.isClosing() {
		return none, dnsmessage.RCodeServerFailure
	} else if err != nil {
		g.decided(egress.Decision{Name: n.name, Allowed: true, Reason: err.Error()})
		if notFound(err) {
			return none, dnsmessage.RCodeNameError
		}
		return none, dnsmessage.RCodeServerFailure
	}
	var (
		usable  []uint16
		refused error
	)
	for _, port := range n.ports {
		if _, err := g.addresses(n, port); err == nil {
			usable = append(usable, port.Number)
		} else {
			refused = err
		}
	}
	if len(usable) == 0 {
		g.decided(egress.Decision{Name: n.name, Reason: refused.Error()})
		return none, dnsmessage.RCodeNameError
	}
	listens := false
	for _, port := range usable {
		to := netip.AddrPortFrom(n.fake, port)
		if port < unprivileged {
			to = netip.AddrPortFrom(netip.IPv4Unspecified(), port)
		}
		err := g.listen(to, g.serveName)
		switch {
		case err == nil:
			listens = true
		case errors.Is(err, syscall.EADDRINUSE):
			g.decided(egress.Decision{Name: n.name, Port: port, Reason: fmt.Sprintf("something in the sandbox listens on port %d itself", port)})
		case !g.isClosing():
			g.decided(egress.Decision{Name: n.name, Port: port, Allowed: true, Reason: err.Error()})
		}
	}
	if !listens {
		return none, dnsmessage.RCodeServerFailure
	}
	return n.fake, dnsmessage.RCodeSuccess
}

// Nameserver is the address that the sandbox's resolv.conf must name.
const Nameserver = "198.18.0.1"

func nameserver() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(Nameserver), 53)
}

// serveNames listens for questions by UDP. All answers fit into UDP, so nobody asks by TCP.
func (g *Gate) serveNames() error {
	file, err := g.config.Sockets(unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	if err := makeLocal(file, netip.MustParsePrefix(egress.FakeRange)); err != nil {
		file.Close()
		return err
	}
	packets, err := bindUDP(file, nameserver())
	if err != nil {
		return err
	}
	g.wg.Go(func() { g.servePackets(packets) })
	return nil
}

func (g *Gate) servePackets(packets *net.UDPConn) {
	end := sync.OnceFunc(func() { packets.Close() }) // the second call waits for the first
	defer end()
	defer context.AfterFunc(g.closing, end)()
	busy := make(slots, g.bounds.questions)
	buffer := make([]byte, datagram)
	for {
		n, from, err := packets.ReadFromUDPAddrPort(buffer)
		if g.isClosing() {
			return
		}
		if err != nil {
			continue
		}
		message := append([]byte(nil), buffer[:n]...)
		// More wait in the socket's buffer. The kernel drops what does not fit there, as in any
		// network, and programs ask again.
		if !busy.take(g.closing) {
			return
		}
		g.wg.Go(func() {
			defer busy.give()
			if reply := g.answer(message); reply != nil {
				packets.WriteToUDPAddrPort(reply, from)
			}
		})
	}
}
