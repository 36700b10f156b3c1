package native

import (
	"context"
	"fmt"
	"os"

	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/egress/gate"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// A network is what a Spec lets a sandbox reach and be reached by, but for the host's network
// as a whole.
type network struct {
	rules     egress.Rules
	hostPorts []uint16
	publish   []egress.Publish
}

// readNetwork gives nil where nothing is passed.
func readNetwork(spec *shared.Network) (*network, error) {
	if !spec.Gated() {
		return nil, nil
	}
	n := &network{hostPorts: spec.HostPorts}
	var err error
	if n.rules, err = egress.ParseRules(spec.Names); err != nil {
		return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "network", Message: err.Error()}
	}
	for i, text := range spec.Publish {
		p, err := egress.ParsePublish(text)
		if err != nil {
			return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: fmt.Sprintf("publish[%d]", i), Message: err.Error()}
		}
		n.publish = append(n.publish, p)
	}
	return n, nil
}

// begin is the Gate of a [cmdengine.Launch].
func (n *network) begin(ctx context.Context, sockets *sandboxinit.Sockets, emit func(shared.Event)) (end func(), err error) {
	g, err := gate.Start(ctx, gate.Config{
		Rules:   n.rules,
		Sockets: func(_ context.Context, kind gate.Kind) (*os.File, error) { return sockets.New(socketKinds[kind]) },
		Decided: func(d egress.Decision) {
			emit(shared.Event{Kind: shared.EventNetwork, Message: d.String(), Details: d.Details()})
		},
	})
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "network", Message: err.Error()}
	}
	for i, port := range n.hostPorts {
		if err := g.HostPort(port); err != nil {
			g.Close()
			return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: fmt.Sprintf("host_ports[%d]", i), Message: err.Error()}
		}
	}
	for i, p := range n.publish {
		if _, err := g.Publish(p); err != nil {
			g.Close()
			return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: fmt.Sprintf("publish[%d]", i),
				Message: "listening on the host: " + err.Error(), Hint: "another command may have the port: publish another one"}
		}
	}
	return func() { g.Close() }, nil
}

// socketKinds are the init's words for those of the gate.
var socketKinds = map[gate.Kind]sandboxinit.SocketKind{gate.TCP4: sandboxinit.TCP4, gate.TCP6: sandboxinit.TCP6, gate.UDP4: sandboxinit.UDP4}
