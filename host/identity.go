package host

import (
	"context"
	"sync"

	"github.com/sbxhost/sbxhost/workspace"
)

// gitIdentity is who commits in the workspace. The zero value was not looked up.
type gitIdentity struct {
	mu     sync.Mutex
	done   chan struct{} // closed when env is final; nil before the lookup
	env    []string      // "name=value"
	cancel context.CancelFunc
	closed bool
}

// lookUpIdentity begins, the first time that there is a repository, to look up
// the git identity in force at the workspace's root. Git takes a millisecond or
// two, in which an engine can start.
func (h *Host) lookUpIdentity() {
	i := &h.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done != nil || i.closed || h.options.Workspace.Env != nil || h.resolver.ws.Repository() == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	i.done, i.cancel = done, cancel
	go func() {
		defer close(done)
		env, err := h.resolver.ws.Identity(ctx, h.resolver.owner.gitUser())
		if err != nil && ctx.Err() == nil {
			h.logger.Warn("commands get no git identity", "error", err)
		}
		i.env = env
	}()
}

// gitEnv gives the variables of the git identity, "name=value"; none when ctx
// ends first.
func (h *Host) gitEnv(ctx context.Context) []string {
	h.lookUpIdentity()
	h.identity.mu.Lock()
	done := h.identity.done
	h.identity.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return h.identity.env
	case <-ctx.Done():
		return nil
	}
}

// close ends a lookup that is under way and prevents others.
func (i *gitIdentity) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed = true; i.done != nil {
		i.cancel()
		<-i.done
	}
}

// forFiles is who is to own what is made for commands, nil for the caller.
func (o *owner) forFiles() *workspace.Owner {
	if o == nil {
		return nil
	}
	return &workspace.Owner{UID: o.user.UID, GID: o.user.GID}
}

// homeDir is the owner's home, "" where there is none.
func (o *owner) homeDir() string {
	if o == nil {
		return ""
	}
	return o.home
}

// gitUser is whom git runs as, nil for the caller.
func (o *owner) gitUser() *workspace.User {
	if o == nil {
		return nil
	}
	return &workspace.User{UID: o.user.UID, GID: o.user.GID, Groups: o.user.Groups, Home: o.home}
}
