//go:build unix

package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
)

const (
	// inUsePatience is how long a session or a review may be in use before that counts: its Host may
	// be about to close, or somebody lists or removes what is unused.
	inUsePatience = 500 * time.Millisecond
	// inUseRetry and lateRetry are the times between two tries, before and after that. Nothing could
	// end a wait in flock(2): Go restarts the system call after a signal.
	inUseRetry = 10 * time.Millisecond
	lateRetry  = 100 * time.Millisecond
)

// claim takes the named session and the review of a command for this Host, before the command has
// anything that others wait for. The command waits if its context has a session.Waiter.
func (p *Pool) claim(ctx context.Context, t *Target, def *view.Definition) error {
	waiter := session.WaiterOf(ctx)
	begin, late, retry := time.Now(), false, inUseRetry
	for {
		err := p.tryClaim(ctx, t, def)
		held, ok := errors.AsType[*session.InUseError](err)
		if !ok {
			return err
		}
		over := ctx.Err() != nil
		if !late && (over || time.Since(begin) > inUsePatience) {
			late, retry = true, lateRetry
			SetStage(ctx, "%s was in use by %s", held.What, held.Holder())
		}
		switch {
		case over:
			return ctx.Err()
		case waiter != nil:
			if err := waiter(held, late); err != nil {
				return err
			}
		case late:
			return held
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

func (p *Pool) tryClaim(ctx context.Context, t *Target, def *view.Definition) error {
	if p.Session.Each() {
		return nil // there is nothing to share
	}
	if p.Session.Name() != "" {
		if _, err := p.Session.Get(session.CredentialKey(def, p.Machine.Sets()), true); err != nil {
			return err
		}
	}
	if def.Review == "" || def.Review == view.NewReview {
		return nil
	}
	_, err := p.joinReview(ctx, t.Name, def)
	return err
}
