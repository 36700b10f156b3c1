package seatbelt

import (
	"crypto/rand"
	"errors"
	"net"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/shared"
)

// An outlet is the proxy through which one command reaches the names in its Spec. The zero value has
// none.
type outlet struct {
	network *gated.Network
	gate    *gated.Gate
	port    uint16
	// taken is the same port for IPv6, which a profile cannot distinguish: it keeps others from
	// using it.
	taken *net.TCPListener
}

// newOutlet begins it.
func newOutlet(spec *shared.Spec) (*outlet, error) {
	n, err := gated.Read(spec)
	o := &outlet{network: n}
	if n == nil || err != nil {
		return o, err
	}
	l, err := o.listen()
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "network", Message: "a port for the proxy: " + err.Error()}
	}
	if o.gate, err = n.Begin(gated.Way{Proxy: &gate.Proxy{Listener: l, Password: rand.Text()}}); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// listen opens a port on the loopback, for both families if there are both.
func (o *outlet) listen() (*net.TCPListener, error) {
	const often = 20
	for range often {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		o.taken, err = net.ListenTCP("tcp6", &net.TCPAddr{IP: net.IPv6loopback, Port: port})
		if !errors.Is(err, syscall.EADDRINUSE) {
			o.port = uint16(port)
			return l, nil
		}
		l.Close()
	}
	return nil, syscall.EADDRINUSE
}

func (o *outlet) hear(emit func(shared.Event)) {
	if o.gate != nil {
		o.gate.Hear(emit, false)
	}
}

func (o *outlet) close() {
	if o.gate != nil {
		o.gate.Close()
	}
	if o.taken != nil {
		o.taken.Close()
	}
}
