package vessel

import (
	"context"
	"os"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// An Outlet is the network of one command in a container without a network: a gate in this process,
// with sockets that the command's init has made. An engine's user may not be root, and then cannot
// give the container addresses that stand for names: programs must use a proxy. Nil means none.
type Outlet struct {
	network *gated.Network
	emit    func(shared.Event)
}

// NewOutlet returns nil if network is nil.
func NewOutlet(network *gated.Network, emit func(shared.Event)) *Outlet {
	if network == nil {
		return nil
	}
	return &Outlet{network, emit}
}

// line is the socket on which the init receives requests for sockets.
func (o *Outlet) line() (sockets *sandboxinit.Sockets, initEnd *os.File, err error) {
	if o == nil {
		return nil, nil, nil
	}
	return sandboxinit.NewSockets()
}

// open begins the gate.
func (o *Outlet) open(ctx context.Context, sockets *sandboxinit.Sockets, env []string) (_ []string, end func(), err error) {
	if o == nil {
		return env, func() {}, nil
	}
	g, err := o.network.Begin(ctx, gated.Way{Sockets: gated.Inside(sockets), Proxy: &gate.Proxy{}})
	if err != nil {
		sockets.Close()
		return nil, nil, err
	}
	g.Hear(o.emit, false)
	return o.network.Environment(env, g), func() {
		sockets.Close()
		g.Close()
	}, nil
}
