//go:build unix

package host

import (
	"context"
	"errors"
	"runtime"

	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// engine gives a living engine of that name and starts it if need be.
func (h *Host) engine(ctx context.Context, name string) (*launch.Engine, error) {
	setStage(ctx, "engine %q was started", h.engines.Resolve(name))
	e, err := h.engines.Get(ctx, name)
	if errors.Is(err, launch.ErrClosed) {
		err = ErrClosed
	}
	return e, err
}

// EngineInfo gives what an engine says of itself, starting it if need be.
func (h *Host) EngineInfo(ctx context.Context, name string) (shared.Info, error) {
	e, err := h.engine(ctx, name)
	if err != nil {
		return shared.Info{}, err
	}
	return e.Info, nil
}

// EngineProbe finds out whether an engine works on this machine, starting it
// if need be.
func (h *Host) EngineProbe(ctx context.Context, name string) (shared.Probe, error) {
	e, err := h.engine(ctx, name)
	if err != nil {
		return shared.Probe{}, err
	}
	probe, err := e.Probe(ctx)
	return probe, e.Lost(err)
}

// engineAhead starts an engine beside its caller, who has a workspace to search
// meanwhile, and gives what waits for it. Who will not need it any more cancels.
func (h *Host) engineAhead(ctx context.Context, name string) (wait func() (*launch.Engine, error), cancel func()) {
	ctx, cancel = context.WithCancel(ctx)
	var e *launch.Engine
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		e, err = h.engine(ctx, name)
	}()
	runtime.Gosched() // it comes first: to wake another thread for it takes half a millisecond
	return func() (*launch.Engine, error) {
		<-done
		return e, err
	}, cancel
}
