// Package gated implements the network of a Spec with a gate (package egress/gate), for engines
// whose sandboxes have a network of their own, or none.
package gated

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/shared"
)

// A Network is what a sandbox can reach, and be reached by, except with the host's whole network.
type Network struct {
	named   bool        // the Spec has a list of names
	config  gate.Config // without the Way
	publish []egress.Publish
}

// Read returns nil if there is nothing to pass.
func Read(of *shared.Spec) (*Network, error) {
	spec := &of.Network
	if !spec.Gated() {
		return nil, nil
	}
	n := &Network{named: spec.Mode == shared.NetworkNames, config: gate.Config{HostPorts: spec.HostPorts, Memory: of.Limits.Memory}}
	var err error
	if n.config.Rules, err = egress.ParseRules(spec.Names); err != nil {
		return nil, invalid("network", err.Error())
	}
	for i, text := range spec.Publish {
		p, err := egress.ParsePublish(text)
		if err != nil {
			return nil, invalid(fmt.Sprintf("publish[%d]", i), err.Error())
		}
		n.publish = append(n.publish, p)
	}
	if in := &spec.Inject; len(in.Credentials) > 0 {
		n.config.Inject = &gate.Injection{Credentials: in.Credentials}
		if n.config.Inject.Certificate, err = tls.X509KeyPair([]byte(in.Certificate), []byte(in.Certificate)); err != nil {
			return nil, invalid("credentials", "its certificate cannot be used")
		}
	}
	return n, nil
}

func invalid(attribute, message string) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: message}
}

// Renew replaces the values of the credentials, also in gates that have begun. n may be nil.
func (n *Network) Renew(list []shared.Credential) {
	if n != nil && n.config.Inject != nil {
		n.config.Inject.Renew(list)
	}
}

// A Way is how a gate and a sandbox meet.
type Way struct {
	// Sockets makes sockets inside; as [sandboxinit.Sockets.New] does. Nil if sandboxes have no network of their own.
	Sockets gate.Sockets
	// Proxy is for sandboxes in which addresses cannot stand for names.
	Proxy *gate.Proxy
	// Resets says that Sockets can make a raw one.
	Resets bool
}

// ByProxy is a Probe's note for an engine that claims [shared.FeatureNetworkProxy].
const ByProxy = "a proxy enforces a list of names: programs that ignore HTTP_PROXY and ALL_PROXY have no network"

// A Gate is the gate of a sandbox; events report its connections.
type Gate struct {
	*gate.Gate
	notes []shared.Event
}

// Resets reports whether the gate needs its sandbox's resets to learn of some connections.
func (n *Network) Resets() bool { return n != nil && n.named && len(n.config.Rules) > 0 }

// Hear makes emit receive the connections made and refused, until stop or the gate's end, each
// refusal once. In a session several commands hear of one gate.
func (g *Gate) Hear(emit func(shared.Event), session bool) (stop func()) {
	for _, note := range g.notes {
		emit(note)
	}
	return g.Gate.Hear(func(d egress.Decision) {
		if session {
			d.Source = egress.OfSession
		}
		emit(shared.Event{Kind: shared.EventNetwork, Message: d.String(), Details: d.Details()})
	})
}

// Begin starts a gate.
func (n *Network) Begin(way Way) (*Gate, error) {
	config := n.config
	config.Sockets, config.Proxy, config.Resets = way.Sockets, way.Proxy, way.Resets && n.Resets()
	g, err := gate.Start(config)
	if err != nil {
		attribute := "network"
		if port, ok := errors.AsType[*gate.HostPortError](err); ok {
			attribute = fmt.Sprintf("host_ports[%d]", slices.Index(config.HostPorts, port.Port))
		}
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: attribute, Message: err.Error()}
	}
	var notes []shared.Event
	note := func(format string, args ...any) {
		notes = append(notes, shared.Event{Kind: shared.EventDegraded, Message: fmt.Sprintf(format, args...)})
	}
	if g.Unseen != nil {
		note("connections to ports that no rule has are refused and not reported: %v", g.Unseen)
	}
	for i, p := range n.publish {
		switch _, err := g.Publish(p); {
		case errors.Is(err, syscall.EADDRINUSE): // mostly a server of the same definition
			note("publish[%d]: another program listens on %s of this machine, so nothing leads to port %d of this command", i, p.Listen, p.Inside)
		case err != nil:
			g.Close()
			return nil, unpublished(i, err)
		case p.Inside < 1024 && way.Proxy == nil: // docker lets its containers listen there
			note("publish[%d]: commands cannot listen on port %d, because it is below 1024", i, p.Inside)
		}
	}
	return &Gate{g, notes}, nil
}

// unpublished is the error for a port on which this process cannot listen.
func unpublished(i int, err error) error {
	e := &shared.Error{Kind: shared.ErrUnavailable, Attribute: fmt.Sprintf("publish[%d]", i), Message: "listening on the host: " + err.Error()}
	if errors.Is(err, syscall.EACCES) {
		e.Kind = shared.ErrDenied
		e.Hint = `name a port of 1024 or above first, as in "8080:3000", or lower the sysctl net.ipv4.ip_unprivileged_port_start`
	}
	return e
}

// Environment is a command's, in which the variables of a gate's proxy replace others with these
// names. n may be nil.
func (n *Network) Environment(env []string, g *Gate) []string {
	if n == nil || !n.named {
		return env
	}
	more := g.Environment()
	kept := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(more, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	})
	return append(kept, more...)
}
