//go:build unix

package session

import (
	"context"
	"fmt"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// Own is the session of one command, of a Host whose commands share nothing: a directory for what it
// writes to overlays.
type Own struct {
	State
	dir *sessiondir.Dir
}

// NewOwn makes one.
func (s *Session) NewOwn(ctx context.Context) (*Own, error) {
	s.lock <- struct{}{}
	closed := s.closed
	if !closed && s.dir != nil && s.stopSweep == nil {
		s.sweep()
	}
	<-s.lock
	o := &Own{}
	err := s.baseErr
	if closed {
		return nil, ErrClosed
	}
	if err == nil {
		o.dir, err = sessiondir.New(sessiondir.Options{Base: s.base, Owner: s.owner})
	}
	if err == nil {
		o.Dir, err = o.dir.Path(ctx)
	}
	if err == nil {
		err = o.dir.Claim(ctx, s.root)
	}
	if err != nil && ctx.Err() != nil {
		o.Close()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		o.State = State{Note: fmt.Sprintf("session: read-only directories are not made writable: %v", err)}
	}
	return o, nil
}

// Close removes it, with all that was written.
func (o *Own) Close() error {
	if o == nil || o.dir == nil {
		return nil
	}
	return o.dir.Close()
}
