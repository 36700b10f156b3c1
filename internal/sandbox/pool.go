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

// Config is what a Pool opens sandboxes with.
type Config struct {
	Engines *launch.Engines
	Machine *facts.Machine
	Session *session.Session // nil where there is no workspace: no sandbox is opened
	// Life ends when the Host is closed; Close is called after that.
	Life context.Context
	// Policy has what the policy knows of every command.
	Policy policy.Facts
	// Linger is how long the places of missing paths stay held; see session.NewLingerer.
	Linger  time.Duration
	OneShot bool // no empty sandbox is kept for a next command
	Logger  hclog.Logger
	// OnLateEvents gets what happened in a sandbox that is closed, between its commands.
	OnLateEvents func(*Open, []shared.Event)
	// KeepFindings keeps what was made after the last command of a session, and says why it could not.
	KeepFindings func(*facts.Changes) string
}

// Pool has the sandboxes of a Host that are open. It is safe for concurrent use.
type Pool struct {
	Config
	linger *session.Lingerer

	mu            sync.Mutex
	slots         map[string]*slot
	uses          uint64           // of slots
	implicitBinds []view.Bind      // those that are writable, of late definitions
	processes     *sharedProcesses // what runs in the session between commands; nil where nothing may

	reviews reviewsInUse
}

// NewPool makes one in which no sandbox is open.
func NewPool(c Config) *Pool {
	return &Pool{Config: c, linger: session.NewLingerer(c.Linger), slots: map[string]*slot{},
		reviews: reviewsInUse{uses: map[string]*review.Use{}}}
}

// slot holds the opened sandbox of one definition.
type slot struct {
	lock     launch.Lock
	current  *Open   // guarded by lock, as are the next two
	retired  []*Open // what others took the place of, while commands run in them
	dropped  bool    // it is no slot any more
	implicit bool    // of a late definition
	used     uint64  // when it was used last, by Pool.uses; guarded by Pool.mu
}

// maxLate is how many sandboxes stay open of late definitions and in which nothing runs.
const maxLate = 16

// slot gives the slot of a target, with its lock held.
func (p *Pool) slot(ctx context.Context, t *Target, via Route) (*slot, error) {
	key := via.slot(t)
	for {
		p.mu.Lock()
		if p.Life.Err() != nil {
			p.mu.Unlock()
			return nil, session.ErrClosed
		}
		s := p.slots[key]
		var idle []*Open
		if s == nil {
			s = &slot{lock: launch.NewLock(), implicit: t.ImplicitKey != ""}
			p.slots[key] = s
		}
		p.uses++
		s.used = p.uses
		if s.implicit {
			idle = p.dropIdle()
			p.noteBinds(t.Definition.BindPaths)
		}
		p.mu.Unlock()
		for _, sb := range idle {
			if err := sb.close(ctx); err != nil {
				p.Logger.Warn("a sandbox that is not used any more was not closed", "error", err)
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

// dropIdle takes the sandbox out of its slot that was used longest ago of those of late
// definitions, where there are too many: who gets it closes it. p.mu is held.
func (p *Pool) dropIdle() (idle []*Open) {
	var late []string
	for key, s := range p.slots {
		if s.implicit {
			late = append(late, key)
		}
	}
	slices.SortFunc(late, func(a, b string) int { return cmp.Compare(p.slots[a].used, p.slots[b].used) })
	for _, key := range late[:max(0, len(late)-maxLate)] {
		s := p.slots[key]
		select {
		case s.lock <- struct{}{}:
		default:
			continue // somebody is about to use it
		}
		if !s.busy() {
			delete(p.slots, key)
			idle = append(idle, s.drop()...)
		}
		s.lock.Release()
	}
	return idle
}

// all are the sandboxes of the slot. The caller of this, and of what follows, holds its lock.
func (s *slot) all() []*Open {
	if s.current == nil {
		return s.retired
	}
	return append(slices.Clip(s.retired), s.current)
}

// busy reports whether a command runs in one of them.
func (s *slot) busy() bool {
	return slices.ContainsFunc(s.all(), func(sb *Open) bool { return sb.running.Load() > 0 })
}

// drop makes it no slot any more. Its caller closes what was open.
func (s *slot) drop() []*Open {
	all := s.all()
	s.dropped, s.current, s.retired = true, nil, nil
	return all
}

// closeRetired closes the retired sandboxes that nobody uses; with all, those
// too whose commands it kills by that. The lock is that under which alone somebody
// begins to use one.
func (s *slot) closeRetired(ctx context.Context, all bool) error {
	var errs []error
	s.retired = slices.DeleteFunc(s.retired, func(sb *Open) bool {
		if !all && sb.running.Load() > 0 {
			return false
		}
		errs = append(errs, sb.close(ctx))
		return true
	})
	return errors.Join(errs...)
}

// noteBinds notes what can be written from now on, by commands of a late definition. p.mu is
// held.
func (p *Pool) noteBinds(binds []view.Bind) {
	for _, b := range binds {
		if b.Writable && !slices.Contains(p.implicitBinds, b) {
			p.implicitBinds = append(p.implicitBinds, b)
		}
	}
}

// ImplicitBinds are what commands of late definitions can write to. A nil Pool has none.
func (p *Pool) ImplicitBinds() []view.Bind {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.implicitBinds)
}

// closeTimeout bounds how long an engine is asked to end its commands, before it is killed
// and they with it.
const closeTimeout = 5 * time.Second

// Close kills the commands that still run and stops the engines. It waits for who starts a
// command for that long.
func (p *Pool) Close(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.mu.Lock()
	slots := slices.Collect(maps.Values(p.slots))
	p.mu.Unlock()
	var errs []error
	for _, s := range slots {
		if s.lock.Acquire(ctx) != nil {
			continue // who has it finds the Host closed
		}
		if sb := s.current; sb != nil && (!sb.Engine.HasProcess() || sb.running.Load() > 0 || sb.Definition.Session.Processes) {
			errs = append(errs, sb.close(context.Background())) // the engine closes others as it ends, and tells of nothing then
		}
		errs = append(errs, s.closeRetired(context.Background(), true))
		s.current = nil
		s.lock.Release()
	}
	ended := p.Engines.Close(ctx)
	defer p.reviews.close()
	p.forgetProcesses()
	p.linger.Close() // no command runs any more, and engines take a moment to end
	p.Machine.Stubs.Close()
	ended()
	return errors.Join(errs...)
}
