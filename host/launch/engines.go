// Package launch finds the programs of engines, checks them, starts them, and keeps one
// process of each for as long as it lives and answers.
//
// It executes nothing that lies where commands can write, and nothing that somebody else
// can replace. It knows neither definitions nor sandboxes.
package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/dial"
	"github.com/sbxhost/sbxhost/shared/orphans"
	"github.com/sbxhost/sbxhost/shared/wire"
)

// Options say where engines come from.
type Options struct {
	Builtins Builtins                 // served by this program, which executes itself
	Dir      string                   // with programs that were installed with this one; empty means this program's
	Declared map[string]Source        // from elsewhere, by name; in place of what is built in
	Path     []string                 // directories of further programs
	Reattach map[string]wire.Reattach // engines that run already, in place of all but injected ones
	Inject   map[string]shared.Engine // in this process, ahead of all others

	Home         string                // of the caller, for sources that begin with ~/
	Environ      []string              // of the caller
	StartTimeout time.Duration         // zero means ten seconds
	Logger       hclog.Logger          // of what engines log
	WritableDir  func(p string) string // the directory with p that commands can write to, as a message names it; or ""
}

// Source says where an engine that is not built in comes from.
type Source struct {
	// Source is the path of its executable, absolute or beginning with "~/".
	Source string
	// SHA256 are the checksums that the executable must have, by platform such
	// as "linux_amd64", in hexadecimal. It is checked at every start, on the
	// opened file that is then executed. Nil means any; a platform that is
	// missing from a map that is not empty is refused.
	SHA256 map[string]string
	// Env names the variables of the host's environment that the engine's
	// process may see.
	Env []string
	// Args are further arguments of its command line.
	Args []string
}

// ErrClosed is returned by what needs Engines that were closed.
var ErrClosed = errors.New("closed")

// Error says that an engine's process could not be started, or was lost,
// with the end of what it logged.
type Error struct {
	Engine string // its name
	Source string // where it came from: "built in" or its path
	Err    error
	Log    string // up to 8 KiB; may be empty
}

func (e *Error) Error() string {
	s := fmt.Sprintf("engine %q", e.Engine)
	if e.Source != "" {
		s += " (" + e.Source + ")"
	}
	s += ": " + e.Err.Error()
	if e.Log != "" {
		s += "\nits log ends:\n  " + strings.ReplaceAll(e.Log, "\n", "\n  ")
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Engines are the engines that a host can use: at most one process of each.
type Engines struct {
	o Options

	mu     sync.Mutex
	closed bool
	slots  map[string]*slot
}

// slot holds one engine.
type slot struct {
	lock    chan struct{} // a mutex whose waiters can give up
	current *Engine       // guarded by lock
}

// New starts nothing. The error names the option at fault.
func New(o Options) (*Engines, error) {
	for name := range o.Reattach {
		if !ValidName(name) || IsAuto(name) || Name(name) != name {
			return nil, fmt.Errorf("%s: %q is not the name of an engine; it takes the name by which the engine calls itself", wire.ReattachEnv, name)
		}
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = dial.DefaultStartTimeout
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return &Engines{o: o, slots: map[string]*slot{}}, nil
}

// Get gives a living engine of that name, or the first of "auto", and starts it if need be.
func (s *Engines) Get(ctx context.Context, name string) (*Engine, error) {
	name = s.Resolve(name)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	at := s.slots[name]
	if at == nil {
		at = &slot{lock: make(chan struct{}, 1)}
		s.slots[name] = at
	}
	s.mu.Unlock()

	select {
	case at.lock <- struct{}{}:
		defer func() { <-at.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.isClosed() { // while we waited; Close would not see what is started now
		return nil, ErrClosed
	}
	if at.current != nil {
		usable, err := at.current.Usable(ctx)
		if usable || err != nil {
			return at.current, err
		}
		at.current.process.Kill() // reaps what is left of the one that died
		orphans.Kill(orphanPatience)
		at.current = nil
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

func (s *Engines) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close begins to stop every engine's process, and gives what waits for their ends. One
// that hangs while it is started holds it up no longer than ctx.
func (s *Engines) Close(ctx context.Context) (wait func()) {
	s.mu.Lock()
	s.closed = true
	slots := s.slots
	s.slots = nil
	s.mu.Unlock()
	var ends sync.WaitGroup
	for _, at := range slots {
		ends.Go(func() {
			select {
			case at.lock <- struct{}{}:
			default: // nobody has to wait for one that is free
				select {
				case at.lock <- struct{}{}:
				case <-ctx.Done():
					return // who starts it finds these Engines closed
				}
			}
			defer func() { <-at.lock }()
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
	if at, ok := s.o.Reattach[name]; ok {
		return s.reattach(ctx, name, at)
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
	// As for the handshake: an engine that listens and does not answer is none.
	asked, cancel := context.WithTimeout(ctx, s.o.StartTimeout)
	defer cancel()
	e.Info, err = e.Engine.Info(asked)
	if err != nil && asked.Err() != nil && ctx.Err() == nil {
		err = dial.NoAnswer(s.o.StartTimeout)
	}
	if known, ok := s.o.Builtins.Info(name); err == nil && ok && !p.declared &&
		(e.Info.Version != known.Version || !slices.Equal(e.Info.Features, known.Features)) {
		err = fmt.Errorf("is of version %s and this program contains version %s; install both from one release, or remove it", e.Info.Version, known.Version)
	}
	if err != nil {
		process.Kill()
		return nil, &Error{Engine: name, Source: p.source, Err: err, Log: process.Log()}
	}
	return e, nil
}
