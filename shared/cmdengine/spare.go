package cmdengine

import (
	"context"
	"os"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// A spare is a sandbox without a command: its init has made all but the last part, and waits. It
// serves one command, as every sandbox.
type spare struct {
	ready chan struct{} // closed when run is final
	run   *insideRun    // nil if making it failed
}

// makeSpare makes a spare, if the Spec asks for one and there is none.
func (s *sandbox) makeSpare() {
	if !s.spec.Prepare || !s.attached.Prepares || s.session != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil || s.spare != nil {
		return
	}
	one := &spare{ready: make(chan struct{})}
	s.spare = one
	s.alive.Go(func() {
		defer close(one.ready)
		c, err := s.command(nil)
		if err != nil {
			return // the next command reports the error
		}
		defer frame.CloseFiles(c.ExtraFiles)
		if c.Same == nil {
			return
		}
		run, err := s.launch(s.open, s.limits, c, false, [3]*os.File{})
		if err != nil {
			return
		}
		by, err := s.confinement(c)
		if by.Landlock = by.Landlock.Look(); err == nil {
			err = run.conn.Confine(&by)
		}
		if err != nil {
			run.giveUp()
			run.finish()
			return
		}
		run.confinement, one.run = &by, run
	})
}

// takeSpare returns the spare if it is what c would start, and discards any other.
func (s *sandbox) takeSpare(ctx context.Context, c *Launch) *insideRun {
	if c.Same == nil {
		return nil
	}
	s.mu.Lock()
	one := s.spare
	s.spare = nil
	s.mu.Unlock()
	if one == nil {
		return nil
	}
	select {
	case <-one.ready: // sooner than a new one
		if one.run != nil && c.Same(ctx, one.run.process) && one.run.confinement.Landlock.Holds(c.Confinement.Landlock) {
			return one.run
		}
	case <-ctx.Done():
	}
	s.alive.Go(one.discard) // until then the caller counts
	return nil
}

// discard ends an unused spare. one may be nil.
func (one *spare) discard() {
	if one == nil {
		return
	}
	if <-one.ready; one.run != nil {
		one.run.giveUp()
		one.run.finish()
	}
}
