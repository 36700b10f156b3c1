package gated

import (
	"context"
	"os"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
)

// Inside makes an init make the sockets of a gate.
func Inside(sockets *sandboxinit.Sockets) gate.Sockets {
	return func(_ context.Context, kind gate.Kind) (*os.File, error) { return sockets.New(kinds[kind]) }
}

// kinds maps the gate's kinds to the init's.
var kinds = map[gate.Kind]sandboxinit.SocketKind{gate.TCP4: sandboxinit.TCP4, gate.TCP6: sandboxinit.TCP6, gate.UDP4: sandboxinit.UDP4, gate.Resets4: sandboxinit.Resets}
