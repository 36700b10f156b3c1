package cmdengine

import (
	"context"
	"os"
)

// A spare is a sandbox without a command: an init that has made all but the last of it and
// waits. It serves one command, as every sandbox does.
type spare struct {
	ready chan struct{} // closed when run is final
	run   *insideRun    // nil where it could not be made
}

// makeSpare has one made, where the Spec asks for that and there is none.
func (s *sandbox) makeSpare() {
	if !s.spec.Prepare || !s.attached.Prepares || s.session != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.spare != nil {
		return
	}
	one := &spare{ready: make(chan struct{})}
	s.spare = one
	s.alive.Go(func() {
		defer close(one.ready)
		c, err := s.command(s.open, nil)
		if err != nil {
			return // the next command is told
		}
		defer closeAll(c.ExtraFiles)
		if c.Same == nil {
			return
		}
		run, err := s.launch(s.open, s.limits, c, false, [3]*os.File{})
		if err != nil {
			return
		}
		by, err := s.confinement(c)
		if by.Landlock = by.Landlock.Look(); err == nil {
			err = run.Conn.Confine(&by)
		}
		if err != nil {
			run.giveUp()
			run.finish()
			return
		}
		run.confinement, one.run = &by, run
	})
}

// takeSpare gives the spare, if it is what c would start. One that is not goes.
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
	case <-one.ready: // sooner than another would be
		if one.run != nil && c.Same(ctx, one.run.process) && one.run.confinement.Landlock.Holds(c.Confinement.Landlock) {
			return one.run
		}
	case <-ctx.Done():
	}
	s.alive.Go(one.discard) // the caller is counted until then
	return nil
}

// discard ends a spare that no command has been given to. There may be none.
func (one *spare) discard() {
	if one == nil {
		return
	}
	if <-one.ready; one.run != nil {
		one.run.giveUp()
		one.run.finish()
	}
}
