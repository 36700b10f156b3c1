package vessel

import (
	"context"
	"errors"
	"os"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// A Run is a command that an init runs in a vessel.
type Run struct {
	cmdengine.InitRun
	Vessel    *Vessel
	closeGate func() // ends the gate
}

// NewRun makes a Run that has not begun.
func NewRun(v *Vessel) *Run {
	r := &Run{Vessel: v, closeGate: func() {}}
	r.Gone, r.End, r.Lost = v.Gone, v.Kill, lost
	r.Finish = func() {
		v.awaitGone()
		r.Conn.Close()
		r.closeGate()
	}
	return r
}

func lost(cause error) error {
	return &shared.Error{Kind: shared.ErrBroken,
		Message: "the container ended before the command's end was known: it was killed or removed, or ran out of memory as a whole: " + cause.Error()}
}

// Begin passes a command to an init and waits until it runs. In a container without a network,
// network, if not nil, is a gate in this process, with sockets that the init has made. An engine's
// user may not be root, and then cannot give the container addresses that stand for names: programs
// must use a proxy, which Begin names in the command's variables.
func (r *Run) Begin(ctx context.Context, cmd sandboxinit.Command, stdio [3]*os.File, network *gated.Network, emit func(shared.Event)) error {
	r.Conn = sandboxinit.NewConn(r.Vessel.control)
	var sockets *sandboxinit.Sockets
	var socketsEnd *os.File
	var err error
	if network != nil {
		if sockets, socketsEnd, err = sandboxinit.NewSockets(); err != nil {
			r.Conn.Close()
			return &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
		}
	}
	if err = r.Conn.Complete(stdio, socketsEnd); err != nil {
		r.Conn.Close()
		return &shared.Error{Kind: shared.ErrBroken, Message: "the container's init is gone: " + err.Error()}
	}
	if network != nil {
		g, err := network.Begin(ctx, gated.Way{Sockets: gated.Inside(sockets), Proxy: &gate.Proxy{}})
		if err != nil {
			sockets.Close()
			r.Conn.Close()
			return err
		}
		g.Hear(emit, false)
		cmd.Env = network.Environment(cmd.Env, g)
		r.closeGate = func() {
			sockets.Close()
			g.Close()
		}
	}
	err = r.Conn.Start(ctx, cmd)
	if err == nil {
		return nil
	}
	defer r.closeGate()
	defer r.Conn.Close()
	switch refused := (*sandboxinit.ExecError)(nil); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused):
		return cmdengine.ExecError(refused)
	case errors.Is(err, sandboxinit.ErrProtocol), errors.Is(err, sandboxinit.ErrInitLost):
		return &shared.Error{Kind: shared.ErrBroken, Message: "the container's init did not start the command: " + err.Error()}
	}
	return &shared.Error{Kind: shared.ErrInvalidSpec, Message: err.Error()}
}
