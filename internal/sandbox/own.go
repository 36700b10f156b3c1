//go:build unix

package sandbox

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
)

// owned is what a sandbox has whose session is that of one command, which nobody else joins.
type owned struct {
	session *session.Own
	slot    *slot
	ahead   func() // opens another one for a next command
	over    atomic.Bool
	ended   chan struct{} // closed when the sandbox is, and its session
}

// maxIdle is how many sandboxes with sessions of their own wait in a slot.
const maxIdle = 4

// takeIdle gives a sandbox that waits for a command; nil where there is none.
func (p *Pool) takeIdle(s *slot) *Open {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(s.idle) > 0 {
		sb := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if sb.Engine.Usable() {
			return sb
		}
		go p.endOwned(sb)
	}
	return nil
}

// giveIdle has a sandbox wait for a command, and reports whether it may.
func (p *Pool) giveIdle(sb *Open) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := sb.owned.slot
	if p.Life.Err() != nil || s.dropped || len(s.idle) >= maxIdle {
		return false
	}
	s.idle = append(s.idle, sb)
	return true
}

// leaveOwned is called when the command of a sandbox has ended. Also one in whose session nothing was written is
// over: its overlays would go on not finding what has come to lie beneath them since it was looked for.
func (p *Pool) leaveOwned(sb *Open) { go p.endOwned(sb) }

// aheadOf opens the sandbox of the next command while the places are held for this one's. Who gives those up
// with the command waits for it, and not for long.
func (p *Pool) aheadOf(sb *Open, release func()) func() {
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		sb.owned.ahead()
	}()
	after := func() {
		select {
		case <-opened:
		case <-time.After(aheadPatience):
		}
		release()
	}
	if p.Linger < 0 {
		return after
	}
	return func() { go after() }
}

// endOwned closes a sandbox and removes its session.
func (p *Pool) endOwned(sb *Open) { p.closeOwned(sb, sb.owned.session.Close) }

// replaceOwned closes a sandbox whose session another one goes on with.
func (p *Pool) replaceOwned(sb *Open) { p.closeOwned(sb, func() error { return nil }) }

func (p *Pool) closeOwned(sb *Open, remove func() error) {
	if sb.owned.over.Swap(true) {
		return
	}
	defer close(sb.owned.ended)
	if err := errors.Join(sb.close(context.Background()), remove()); err != nil {
		p.Logger.Warn("a sandbox that is not used any more was not removed", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned = slices.DeleteFunc(p.owned, func(one *Open) bool { return one == sb })
}

// openAhead opens a sandbox for the next command of a target, unless one waits already: as the one
// before it was, in a session of its own. The next command's own look decides whether it will do.
func (p *Pool) openAhead(last *Open, t Target, via Route) {
	def := p.forRoute(t.Definition, via)
	if t.Planning || !last.Resolved.WantsSession || def.Isolation == view.IsolationBestEffort {
		return // what it is depends on its command
	}
	ctx, cancel := context.WithTimeout(p.Life, aheadTimeout)
	defer cancel()
	s, err := p.slot(ctx, &t, via)
	if err != nil {
		return
	}
	defer s.lock.Release()
	p.mu.Lock()
	waits := len(s.idle) > 0
	p.mu.Unlock()
	if waits {
		return
	}
	own, err := p.Session.NewOwn(ctx)
	if err != nil || own.Dir == "" {
		own.Close()
		return // the next command is told
	}
	resolved := *last.Resolved
	resolved.Spec, resolved.Notes = last.asked, slices.Clip(resolved.Notes)
	resolved.Spec.Session = own.Session
	var sb *Open
	if err = session.Prepare(&resolved.Spec); err == nil {
		sb, err = p.open(ctx, t.Name, def, &resolved, via, func() (*launch.Engine, error) { return p.Engine(ctx, engineOf(def, via)) })
	}
	if err != nil {
		own.Close()
		return
	}
	p.own(sb, s, own, t, via)
	if !p.giveIdle(sb) {
		p.endOwned(sb)
	}
}

const (
	aheadTimeout  = 30 * time.Second
	aheadPatience = 250 * time.Millisecond
)

// own makes a sandbox that was opened one of a session of its own.
func (p *Pool) own(sb *Open, s *slot, o *session.Own, t Target, via Route) {
	sb.owned = &owned{session: o, slot: s, ahead: func() { p.openAhead(sb, t, via) }, ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned = append(p.owned, sb)
}

// endAllOwned removes the sessions of all, whose engines have ended.
func (p *Pool) endAllOwned(ctx context.Context) {
	p.mu.Lock()
	all := slices.Clone(p.owned)
	p.mu.Unlock()
	for _, sb := range all {
		p.endOwned(sb)
		select {
		case <-sb.owned.ended: // by another, perhaps
		case <-ctx.Done():
		}
	}
}

// ownSession is the session of one command, made when it is needed.
type ownSession struct {
	pool    *Pool
	session *session.Own
}

// get is as of [session.Session.Get].
func (o *ownSession) get(ctx context.Context, reach string, write bool) (session.State, error) {
	if !write || !o.pool.Session.Each() {
		return o.pool.Session.Get(ctx, reach, write)
	}
	if o.session == nil {
		var err error
		if o.session, err = o.pool.Session.NewOwn(ctx); err != nil {
			return session.State{}, err
		}
	}
	return o.session.State, nil
}

// unshared refuses what a host whose commands share nothing cannot have.
func (p *Pool) unshared(def *view.Definition) error {
	if p.Session.Each() && (def.Session.Processes || def.Review != "") {
		return session.ErrNoSession
	}
	return nil
}
