//go:build unix

package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// sharedProcesses is what a host knows about processes that commands left running in the session:
// their definition, their slot, and the stubs that must stay. It also counts commands that start or
// run.
type sharedProcesses struct {
	pool *Pool
	name string
	def  view.Definition

	// Guarded by Pool.mu.
	users  int
	opened bool
	idle   *time.Timer   // while there are no users
	ended  chan struct{} // closed when nothing runs any more; nil if nobody waits for that

	forgotten sync.Once // Pool.Close does not wait for a slot forever

	last  *facts.Resolution // of the last command that has ended, with the state then
	slot  *slot
	holds []func() // release the stubs of one table each
}

// enterProcesses counts one more command that shares processes; nil means that t does not. While
// something may run in the session, it belongs to one definition: another one's network or limits
// would not be enforced there.
func (p *Pool) enterProcesses(ctx context.Context, t *Target) (*sharedProcesses, error) {
	if !t.Definition.Session.Processes {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.processes != nil && p.processes.ended != nil {
		ended := p.processes.ended
		p.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if p.Life.Err() != nil {
		return nil, session.ErrClosed
	}
	k := p.processes
	if k == nil {
		k = &sharedProcesses{pool: p, name: t.Name, def: t.Definition}
		p.processes = k
	}
	if k.name != t.Name {
		return nil, &Error{Sandbox: t.Name, Err: k.refuse("sandbox", fmt.Sprintf("processes of sandbox %q run in the session", k.name))}
	}
	if attribute := k.def.Differs(&t.Definition); attribute != "" {
		return nil, &Error{Sandbox: t.Name, Err: k.refuse(attribute, "it differs from the running processes of the session")}
	}
	k.users++
	if k.idle != nil {
		k.idle.Stop()
	}
	return k, nil
}

func (k *sharedProcesses) refuse(attribute, message string) error {
	return &shared.Error{Kind: shared.ErrDenied, Attribute: attribute, Message: message, Hint: "end the session's processes first, or use another session"}
}

// keep records that processes can run in a slot, with the stubs for them.
func (k *sharedProcesses) keep(s *slot, releaseHeld func()) {
	k.pool.mu.Lock()
	defer k.pool.mu.Unlock()
	k.slot, k.opened = s, true
	k.holds = append(k.holds, releaseHeld)
}

// carryOver makes changes between two commands part of the second's report. k may be nil.
func (k *sharedProcesses) carryOver(now *facts.Resolution) {
	if k != nil {
		k.pool.mu.Lock()
		defer k.pool.mu.Unlock()
		now.ContinueFrom(k.last)
	}
}

// leave counts one command less; ended is that command, if it ran. k may be nil.
func (k *sharedProcesses) leave(ended *facts.Resolution) {
	if k == nil {
		return
	}
	p := k.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.processes != k { // Pool.Close has not waited for this command
		p.lookAfter(ended)
		return
	}
	if ended.HasLastLook() {
		k.last.EndAfter(true) // the next look begins with this state
		k.last = ended
	}
	if k.users--; k.users > 0 {
		return
	}
	if !k.opened { // nothing runs
		p.processes = nil
		k.end()
		return
	}
	k.idle = time.AfterFunc(cmp.Or(k.def.Session.Idle, view.DefaultIdle), func() {
		ctx, cancel := context.WithTimeout(p.Life, closeTimeout)
		defer cancel()
		if err := p.EndProcesses(ctx); err != nil {
			p.Logger.Warn("the session's processes were not ended", "error", err)
		}
	})
}

// HasProcesses reports whether something may run in the session.
func (p *Pool) HasProcesses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.processes != nil
}

// EndProcesses ends what commands left running in the session. While a command runs there, it does
// nothing.
func (p *Pool) EndProcesses(ctx context.Context) error {
	p.mu.Lock()
	k := p.processes
	if k == nil || k.users > 0 {
		p.mu.Unlock()
		return nil
	}
	s := k.slot
	p.mu.Unlock()
	if err := s.lock.Acquire(ctx); err != nil {
		return err // they still run
	}
	defer s.lock.Release()
	p.mu.Lock()
	if p.processes != k || k.users > 0 {
		p.mu.Unlock()
		return nil
	}
	k.ended = make(chan struct{}) // the next command waits for this
	p.mu.Unlock()
	defer k.forgotten.Do(k.forget)
	if s.current != nil {
		s.retired = append(s.retired, s.current)
		s.current = nil
	}
	return s.closeRetired(ctx, true)
}

// forget is called when nothing runs any more.
func (k *sharedProcesses) forget() {
	if k.idle != nil {
		k.idle.Stop()
	}
	k.pool.lookAfter(k.last)
	k.end()
	k.pool.mu.Lock()
	defer k.pool.mu.Unlock()
	k.pool.processes = nil
	if k.ended != nil {
		close(k.ended)
	}
}

// lookAfter finds what was made since the end of a command, when nothing of its session runs any more.
func (p *Pool) lookAfter(last *facts.Resolution) {
	if last.HasLastLook() {
		made := p.Machine.ChangesSince(last)
		last.EndAfter(p.KeepFindings(&made) == "")
	}
}

func (k *sharedProcesses) end() {
	for _, release := range k.holds {
		release()
	}
}
