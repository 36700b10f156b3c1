//go:build unix

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Config is the input of a Pool.
type Config struct {
	Engines *launch.Engines
	Machine *facts.Machine
	Session *session.Session // nil without a workspace: then no sandbox opens
	// Life ends when the Host closes; Close is called after that.
	Life context.Context
	// Policy has what the policy knows about every command.
	Policy policy.Facts
	// Linger is how long stubs for missing paths stay; see session.NewLingerer.
	Linger  time.Duration
	OneShot bool // keep no empty sandbox for the next command
	Logger  hclog.Logger
	// OnLateEvents receives the events between the commands of a closed sandbox.
	OnLateEvents func(*Handle, []shared.Event)
	// KeepFindings records changes after the last command of a session, and returns why it could
	// not.
	KeepFindings func(*facts.Changes) string
}

// Pool has the open sandboxes of a Host. It is safe for concurrent use.
type Pool struct {
	Config
	linger *session.Lingerer

	mu            sync.Mutex
	slots         map[string]*slot
	uses          uint64           // of slots
	implicitBinds []view.Bind      // writable ones of implicit definitions
	processes     *sharedProcesses // the session's processes between commands; may be nil

	reviews reviewsInUse
}

// NewPool makes a Pool without open sandboxes.
func NewPool(c Config) *Pool {
	return &Pool{Config: c, linger: session.NewLingerer(c.Linger), slots: map[string]*slot{},
		reviews: reviewsInUse{uses: map[string]*review.Review{}, joined: map[string]bool{}}}
}

// slot has the opened sandbox of one definition.
type slot struct {
	lock     launch.Lock
	current  *Handle   // guarded by lock, as are the next two
	retired  []*Handle // replaced ones, while commands run in them
	dropped  bool      // the slot is out of use
	implicit bool      // of an implicit definition
	used     uint64    // the last use, in Pool.uses; guarded by Pool.mu
}

// maxImplicit is how many idle sandboxes of implicit definitions stay open.
const maxImplicit = 16

// slot returns the slot of a target, with its lock held.
func (p *Pool) slot(ctx context.Context, t *Target, via Route) (*slot, error) {
	key := via.slot(t)
	for {
		p.mu.Lock()
		if p.Life.Err() != nil {
			p.mu.Unlock()
			return nil, session.ErrClosed
		}
		s := p.slots[key]
		var idle []*Handle
		if s == nil {
			s = &slot{lock: launch.NewLock(), implicit: t.ImplicitKey != ""}
			p.slots[key] = s
		}
		p.uses++
		s.used = p.uses
		if s.implicit {
			idle = p.dropIdle()
			for _, b := range t.Definition.BindPaths { // which its commands can write to
				if b.Writable && !slices.Contains(p.implicitBinds, b) {
					p.implicitBinds = append(p.implicitBinds, b)
				}
			}
		}
		p.mu.Unlock()
		for _, sb := range idle {
			if err := sb.close(ctx); err != nil {
				p.Logger.Warn("an unused sandbox was not closed", "error", err)
			}
		}
		if err := s.lock.Acquire(ctx); err != nil {
			return nil, err
		}
		if !s.dropped {
			return s, nil
		}
		s.lock.Release()
	}
}

// dropIdle removes from its slot the sandbox of an implicit definition that was unused for the
// longest time, if there are too many. The caller closes it. p.mu is held.
func (p *Pool) dropIdle() (idle []*Handle) {
	var implicit []string
	for key, s := range p.slots {
		if s.implicit {
			implicit = append(implicit, key)
		}
	}
	slices.SortFunc(implicit, func(a, b string) int { return cmp.Compare(p.slots[a].used, p.slots[b].used) })
	for _, key := range implicit[:max(0, len(implicit)-maxImplicit)] {
		s := p.slots[key]
		select {
		case s.lock <- struct{}{}:
		default:
			continue // somebody is about to use it
		}
		if !s.busy() {
			delete(p.slots, key)
			idle = append(idle, s.all()...)
			s.dropped, s.current, s.retired = true, nil, nil
		}
		s.lock.Release()
	}
	return idle
}

// all returns the sandboxes of the slot. The caller of this method and the next ones holds the
// slot's lock.
func (s *slot) all() []*Handle {
	if s.current == nil {
		return s.retired
	}
	return append(slices.Clip(s.retired), s.current)
}

// busy reports whether a command runs in a sandbox of the slot.
func (s *slot) busy() bool {
	return slices.ContainsFunc(s.all(), func(sb *Handle) bool { return sb.running.Load() > 0 })
}

// closeRetired closes unused retired sandboxes; with all, also the others, which kills their
// commands. A sandbox comes into use only under this lock.
func (s *slot) closeRetired(ctx context.Context, all bool) error {
	var errs []error
	s.retired = slices.DeleteFunc(s.retired, func(sb *Handle) bool {
		if !all && sb.running.Load() > 0 {
			return false
		}
		errs = append(errs, sb.close(ctx))
		return true
	})
	return errors.Join(errs...)
}

// ImplicitBinds are the writable binds of implicit definitions. p may be nil.
func (p *Pool) ImplicitBinds() []view.Bind {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.implicitBinds)
}

func (p *Pool) allSlots() []*slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.slots))
}

// closeTimeout bounds how long an engine may take to end its commands, before it is killed with
// them.
const closeTimeout = 5 * time.Second

// Close kills running commands and stops the engines. It waits that long for commands that start.
func (p *Pool) Close(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, s := range p.allSlots() {
		if s.lock.Acquire(ctx) != nil {
			continue // its user finds the Host closed
		}
		if sb := s.current; sb != nil && (!sb.Engine.HasProcess() || sb.running.Load() > 0 || sb.Definition.Session.Processes) {
			errs = append(errs, sb.close(context.Background())) // the engine closes others at its end, and then reports nothing
		}
		errs = append(errs, s.closeRetired(context.Background(), true))
		s.current = nil
		s.lock.Release()
	}
	ended := p.Engines.Close(ctx)
	defer p.reviews.close()
	p.mu.Lock()
	k := p.processes
	p.processes = nil
	p.mu.Unlock()
	if k != nil {
		k.forgotten.Do(k.forget)
	}
	// No command runs any more, and engines take a moment to end. To remove a session can wait for a disk.
	var meanwhile sync.WaitGroup
	if p.OneShot && p.Session != nil && p.Session.Name() == "" {
		meanwhile.Go(func() { errs = append(errs, p.Session.Close()) }) // a later Host finds nothing of this session either
	}
	p.linger.Close()
	p.Machine.Stubs.Close()
	meanwhile.Wait()
	ended()
	return errors.Join(errs...)
}
