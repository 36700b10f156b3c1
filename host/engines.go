package host

import (
	"context"
	"errors"
	"os/exec"
	"runtime"

	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// EngineSource says where an engine that is not built in comes from.
type EngineSource = launch.Source

// EngineProgram is the executable of an engine, by the name that definitions call it.
type EngineProgram = launch.Program

// EngineError says that an engine's process could not be started, or was lost,
// with the end of what it logged.
type EngineError = launch.Error

// Builtins are the engines that this program contains and can serve by
// executing itself. Only ServeBuiltin makes one that is not empty, so that a
// Host never re-executes a program whose main is not prepared for it.
type Builtins = launch.Builtins

// ServeBuiltin must be the first call of a main that links engines. In a
// process that a Host has started to serve one of them, or that an engine has
// started as a sandbox's init, it does that and never returns: it ends the
// process. Everywhere else it returns at once what [Options.Builtins] needs.
func ServeBuiltin(engines ...shared.Engine) Builtins { return launch.ServeBuiltin(engines...) }

// AutoEngines are the engines that "auto" chooses from, the best one first: it
// takes the first that works on this machine. Docker is among them only where
// it was declared, since it needs an image to be chosen.
func (h *Host) AutoEngines() []string { return h.engines.Auto() }

// EngineNames lists the engines this Host knows, sorted.
func (h *Host) EngineNames() []string { return h.engines.Names() }

// SeparateEngines lists those of this project's engines that are programs of
// their own, and where they stand beside this program: "" where they do not.
func (h *Host) SeparateEngines() map[string]string { return h.engines.SeparatePrograms() }

// EngineFile finds the executable of an engine, which it neither reads nor
// starts.
func (h *Host) EngineFile(name string) (launch.File, error) { return h.engines.File(name) }

// EngineCommand gives the command line by which this Host would start an engine's
// process, for tools that start one themselves, with dial.Launch; see
// launch.Engines.Command.
func (h *Host) EngineCommand(name string) (cmd *exec.Cmd, release func(), err error) {
	return h.engines.Command(name)
}

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
