//go:build unix

package facts

import (
	"context"
	"sync"
)

// gitIdentity is who commits in the workspace. The zero value was not looked up.
type gitIdentity struct {
	mu     sync.Mutex
	done   chan struct{} // closed when env is final; nil before the lookup
	env    []string      // "name=value"
	cancel context.CancelFunc
	closed bool
}

// LookUpIdentity begins, the first time that there is a repository, to look up
// the git identity in force at the workspace's root. Git takes a millisecond or
// two, in which an engine can start.
func (m *Machine) LookUpIdentity() {
	i := &m.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done != nil || i.closed || m.Env != nil || m.Workspace.Repository() == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	i.done, i.cancel = done, cancel
	go func() {
		defer close(done)
		env, err := m.Workspace.Identity(ctx, m.Owner.gitUser())
		if err != nil && ctx.Err() == nil {
			m.Logger.Warn("commands get no git identity", "error", err)
		}
		i.env = env
	}()
}

// Identity gives the variables of the git identity, "name=value"; none when ctx
// ends first.
func (m *Machine) Identity(ctx context.Context) []string {
	m.LookUpIdentity()
	m.identity.mu.Lock()
	done := m.identity.done
	m.identity.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return m.identity.env
	case <-ctx.Done():
		return nil
	}
}

// Close ends a lookup of the identity that is under way and prevents others, and removes
// files of certificates.
func (m *Machine) Close() {
	m.trusted.remove()
	i := &m.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed = true; i.done != nil {
		i.cancel()
		<-i.done
	}
}
