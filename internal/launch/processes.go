//go:build unix

package launch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
)

// ErrClosed is returned by closed Engines.
var ErrClosed = errors.New("closed")

// slot has one engine.
type slot struct {
	lock    Lock
	current *Engine // guarded by lock, and for Pids by mu
}

// Get returns a living engine with that name, or the first of "auto". It starts one if necessary.
func (s *Engines) Get(ctx context.Context, name string) (*Engine, error) {
	name = s.Resolve(name)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	at := s.slots[name]
	if at == nil {
		at = &slot{lock: NewLock()}
		s.slots[name] = at
	}
	s.mu.Unlock()

	if err := at.lock.Acquire(ctx); err != nil {
		return nil, err
	}
	defer at.lock.Release()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed { // while we waited; Close would not see a later start
		return nil, ErrClosed
	}
	if at.current != nil {
		if at.current.Usable() {
			return at.current, nil
		}
		at.current.process.Kill() // reaps the rest of the dead one
		sandboxinit.KillOrphans(orphanPatience)
		s.mu.Lock()
		at.current = nil
		s.mu.Unlock()
	}
	e, err := s.start(ctx, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		e.stop()
		return nil, ErrClosed
	}
	at.current = e
	return e, nil
}

// Pids are the numbers of the engines' processes.
func (s *Engines) Pids() (pids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.slots {
		if e := at.current; e != nil && e.process != nil {
			pids = append(pids, e.process.Pid())
		}
	}
	return pids
}

// Close begins to stop every engine's process, and returns a function that waits for their ends.
// For one that hangs during its start it waits no longer than ctx.
func (s *Engines) Close(ctx context.Context) (wait func()) {
	s.mu.Lock()
	s.closed = true
	slots := s.slots
	s.slots = nil
	s.mu.Unlock()
	var ends sync.WaitGroup
	for _, at := range slots {
		ends.Go(func() {
			if at.lock.Acquire(ctx) != nil {
				return // its starter finds these Engines closed
			}
			defer at.lock.Release()
			if at.current != nil {
				at.current.stop()
			}
			at.current = nil
		})
	}
	return ends.Wait
}

func (s *Engines) start(ctx context.Context, name string) (_ *Engine, err error) {
	if injected, ok := s.o.Inject[name]; ok {
		e := &Engine{Engine: injected, Source: "injected"}
		if e.Info, err = injected.Info(ctx); err != nil {
			return nil, &Error{Engine: name, Source: e.Source, Err: err}
		}
		return e, nil
	}
	p, err := s.find(name)
	if err != nil {
		return nil, err
	}
	made := p.recorded()
	process, err := s.launch(ctx, p)
	if err != nil {
		return nil, err
	}
	e := &Engine{Engine: process, Source: p.source, Program: made, process: process}
	// As for the handshake: an engine that listens and does not answer is useless.
	begun := time.Now()
	asked, cancel := context.WithTimeout(ctx, s.o.StartTimeout)
	defer cancel()
	e.Info, err = e.Engine.Info(asked)
	// By the clock: the engine, which knows the deadline, can give up before our timer.
	if err != nil && time.Since(begun) >= s.o.StartTimeout && ctx.Err() == nil {
		err = dial.NoAnswer(s.o.StartTimeout)
	}
	if err != nil {
		process.Kill()
		return nil, &Error{Engine: name, Source: p.source, Err: err, Log: process.Log()}
	}
	return e, nil
}
