//go:build unix

package launch

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// Patience is how long an engine may take to end a command that it must kill, or to show that it
// lives. It is twice the time of an engine whose launcher or init is stopped, and leaves two of the
// five seconds in which a time limit is enforced.
const Patience = 3 * time.Second

// LostPatience is how long an engine may take to end after its connection is gone, or after a
// request to end.
const LostPatience = time.Second

// orphanPatience is how long the launchers of a killed engine may take to end.
const orphanPatience = 200 * time.Millisecond

// Engine is a connected engine.
type Engine struct {
	shared.Engine
	Info   shared.Info // its description of itself
	Source string      // its origin, for people
	// Program is the executable; nil for an engine that is part of this program, was installed with
	// it, or is injected.
	Program *Program

	process *dial.Process // nil for an injected engine

	hung atomic.Bool // it did not answer in time, and was killed
}

// HasProcess reports whether the engine's process is ours, and ends with what it has opened.
func (e *Engine) HasProcess() bool { return e.process != nil }

// Doubt checks an engine that did not answer in time, and kills one that hangs.
func (e *Engine) Doubt() {
	if e.process == nil {
		return
	}
	go func() {
		late := time.AfterFunc(Patience, e.Kill)
		e.process.Ping()
		late.Stop()
	}()
}

// Usable reports whether the engine lives.
func (e *Engine) Usable() bool {
	return e.process == nil || !e.hung.Load() && !e.process.Gone() // its end takes a moment
}

// NeverRequested reports whether err, of a command's start, means that the engine never received
// the request: nothing has run.
func NeverRequested(err error) bool {
	_, ok := errors.AsType[*dial.NotAskedError](err)
	return ok
}

// Kill kills a hanging engine's process, if that is ours.
func (e *Engine) Kill() {
	if e.process != nil && !e.process.Gone() {
		e.hung.Store(true)
		_ = e.process.Signal(syscall.SIGKILL)
	}
}

// stop ends the engine and what it has started. One that is asked to end cleans up after a start
// that was given up, unless it hangs.
func (e *Engine) stop() {
	if e.process == nil {
		return
	}
	e.process.Leave(LostPatience)
	hung := e.hung.Load() || !e.process.Gone()
	e.process.Kill()
	if hung {
		sandboxinit.KillOrphans(orphanPatience)
	}
}

// Lost turns the loss of an engine's process into an error with the end of its log, and returns
// every other error unchanged.
func (e *Engine) Lost(err error) error {
	if e.process == nil || !errors.Is(err, shared.ErrEngineLost) || errors.As(err, new(*Error)) {
		return err
	}
	lived := ""
	if e.hung.Load() {
		lived = ": it did not answer in time, and was killed"
	}
	select {
	case <-e.process.Exited():
	case <-time.After(LostPatience):
		// A process that lives on without its connection is useless, and nobody must wait for it.
		lived = ": it broke off a call, lived on, and was killed"
		_ = e.process.Signal(syscall.SIGKILL)
		select {
		case <-e.process.Exited():
		case <-time.After(LostPatience): // the kernel holds it
		}
	}
	sandboxinit.KillOrphans(orphanPatience)
	return &Error{Engine: e.Info.Name, Source: e.Source,
		Err: fmt.Errorf("%w%s (%v), and its commands with it", shared.ErrEngineLost, lived, e.process.State()), Log: e.process.Log()}
}
