//go:build unix

package launch

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/engine/orphans"
	"github.com/sbxhost/sbxhost/shared"
)

// Patience is how long an engine may take to end a command that it was to kill, or to
// show that it lives. It is twice what an engine needs whose launcher or init is stopped,
// and leaves two seconds of the five in which a time limit is held.
const Patience = 3 * time.Second

// LostPatience is how long an engine may take to end whose connection is gone, or which was
// asked to leave.
const LostPatience = time.Second

// orphanPatience is how long the launchers of an engine that was killed may take
// to end.
const orphanPatience = 200 * time.Millisecond

// Engine is an engine that can be spoken to.
type Engine struct {
	shared.Engine
	Info   shared.Info // what it says of itself
	Source string      // where it came from, for people
	// Program is what was executed; nil for an engine that is part of this program or was
	// installed with it, that is injected, or that somebody else has started.
	Program *Program

	process *dial.Process // nil for an injected or attached engine
	detach  func()        // from one that somebody else has started; nil for every other

	hung atomic.Bool // it did not answer in time, and was killed for it
}

// HasProcess reports whether the engine's process is ours, and ends with what it has opened.
func (e *Engine) HasProcess() bool { return e.process != nil }

// Doubt has an engine that did not answer in time show that it still does. One that hangs
// is killed.
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

// NeverRequested reports of an error of a command's start that the engine was not asked for it:
// nothing of it has run.
func NeverRequested(err error) bool {
	_, ok := errors.AsType[*dial.NotAskedError](err)
	return ok
}

// Kill kills the engine's process, if that is ours to kill, and is hanging.
func (e *Engine) Kill() {
	if e.process != nil && !e.process.Gone() {
		e.hung.Store(true)
		_ = e.process.Signal(syscall.SIGKILL)
	}
}

// stop ends the engine and what it has started. One that is asked to leave clears up
// itself after a start that was given up, unless it hangs.
func (e *Engine) stop() {
	if e.detach != nil {
		e.detach()
	}
	if e.process == nil {
		return
	}
	e.process.Leave(LostPatience)
	hung := e.hung.Load() || !e.process.Gone()
	e.process.Kill()
	if hung {
		orphans.Kill(orphanPatience)
	}
}

// Lost turns the loss of an engine's process into an error that says so with
// the end of its log, and gives every other error as it is.
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
		// A process that lives on without its connection is of no use, and must
		// not make anybody wait.
		lived = ": it broke off a call, lived on, and was killed"
		_ = e.process.Signal(syscall.SIGKILL)
		select {
		case <-e.process.Exited():
		case <-time.After(LostPatience): // the kernel holds it
		}
	}
	orphans.Kill(orphanPatience)
	return &Error{Engine: e.Info.Name, Source: e.Source,
		Err: fmt.Errorf("%w%s (%v), and its commands with it", shared.ErrEngineLost, lived, e.process.State()), Log: e.process.Log()}
}
