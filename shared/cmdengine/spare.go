package cmdengine

import (
	"context"
	"os"
)

// Commands in a quick sequence come before a single spare is ready. A command that does so adds 2 to
// the sandbox's hurry, another one takes 1 away. From maxHurry on, the sandbox keeps maxSpares: one is
// made while the command in the other one runs.
const (
	maxHurry  = 6
	maxSpares = 2
)

// A spare is a sandbox without a command: its init has made all but the last part, and waits. It
// serves one command, as every sandbox.
type spare struct {
	ready chan struct{} // closed when run is final
	run   *insideRun    // nil if making it failed
}

// makeSpares makes as many spares as are missing, if the Spec asks for them.
func (s *sandbox) makeSpares() {
	if !s.spec.Prepare || !s.attached.Prepares || s.session != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := 1
	if s.hurry >= maxHurry {
		keep = maxSpares
	}
	for !s.closed && len(s.spares) < keep {
		s.makeSpare()
	}
}

// makeSpare makes one. The caller holds s.mu.
func (s *sandbox) makeSpare() {
	one := &spare{ready: make(chan struct{})}
	s.spares = append(s.spares, one)
	s.alive.Go(func() {
		defer close(one.ready)
		c, err := s.command(s.open, nil)
		if err != nil {
			return // the next command reports the error
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

// takeSpare returns the first spare that is what c would start, and discards those before it.
func (s *sandbox) takeSpare(ctx context.Context, c *Launch) *insideRun {
	if c.Same == nil {
		return nil
	}
	for one := s.nextSpare(); one != nil; one = s.nextSpare() {
		select {
		case <-one.ready: // sooner than a new one
			if one.run != nil && c.Same(ctx, one.run.process) && one.run.confinement.Landlock.Holds(c.Confinement.Landlock) {
				return one.run
			}
		case <-ctx.Done():
		}
		s.alive.Go(one.discard) // until then the caller counts
	}
	return nil
}

// nextSpare takes the oldest spare, or nil, and notes whether it is ready.
func (s *sandbox) nextSpare() (one *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := false
	if len(s.spares) > 0 {
		one, s.spares = s.spares[0], s.spares[1:]
		select {
		case <-one.ready:
			ready = true
		default:
		}
	}
	switch {
	case s.hurry >= maxHurry: // for the life of the sandbox
	case ready:
		s.hurry = max(s.hurry-1, 0)
	default:
		s.hurry += 2
	}
	return one
}

// discard ends an unused spare.
func (one *spare) discard() {
	if <-one.ready; one.run != nil {
		one.run.giveUp()
		one.run.finish()
	}
}
