//go:build unix

package session

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/shared"
)

// Own is the session of one command at a time, of a Host whose commands share nothing: a directory for what
// it writes to overlays.
type Own struct {
	State
	session *Session
	dir     *sessiondir.Dir

	// stamps are of the upper directories of overlays, and of what lies beneath them.
	stamps   map[string]stamp
	lock     string // whoever mounts an overlay has it
	reusable bool   // it has overlays alone, and nothing was written to one
}

// A stamp tells whether a directory, or what lies right in it, was changed.
type stamp struct {
	dev, ino uint64
	changed  int64 // ctime in nanoseconds
}

func stampOf(dir string) (s stamp, err error) {
	var st unix.Stat_t
	if err = unix.Lstat(dir, &st); err == nil {
		s = stamp{uint64(st.Dev), st.Ino, st.Ctim.Nano()}
	}
	return s, err
}

// settled reports whether a change after a moment has another ctime: the kernel's clock for those ticks each 10 ms,
// and some file systems round to seconds.
func (s stamp) settled(moment time.Time) bool {
	settling := 2 * time.Second
	if s.changed%int64(time.Millisecond) != 0 {
		settling = 20 * time.Millisecond
	}
	return moment.UnixNano()-s.changed > int64(settling)
}

// NewOwn makes one.
func (s *Session) NewOwn(ctx context.Context) (*Own, error) {
	s.lock <- struct{}{}
	closed := s.closed
	if !closed && s.dir != nil && s.stopSweep == nil {
		s.sweep()
	}
	<-s.lock
	o := &Own{session: s, stamps: map[string]stamp{}, reusable: s.owner == nil}
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

// Spare gives one in which a command has written nothing, for [Own.Opened] to prove; nil where there is none. To
// make the directories of its overlays, and to remove them, costs more than the command.
func (s *Session) Spare() (o *Own) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if last := len(s.spare) - 1; last >= 0 {
		o, s.spare = s.spare[last], s.spare[:last]
	}
	return o
}

// maxSpare is how many wait for a command.
const maxSpare = 4

// Opened notes what the overlays of a sandbox are like, before a command can write to them. It reports whether
// those that an earlier command has had are as they were before that. This is known only now that they are mounted:
// the kernel mounts none while somebody is left who could write to it.
func (o *Own) Opened(spec *shared.Spec) bool {
	note := func(dir string) {
		now, err := stampOf(dir)
		was, known := o.stamps[dir]
		o.reusable = o.reusable && err == nil && (!known || now == was)
		o.stamps[dir] = now
	}
	for i := range spec.Table {
		e := &spec.Table[i]
		o.reusable = o.reusable && !paths.Inside(o.Dir, e.Source)
		if e.Access == shared.Overlay {
			var upper string
			upper, o.lock = shared.KeptOverlay(&o.Session, uint32(os.Geteuid()), e.Source)
			note(upper)
			note(e.Source) // another one would not be mounted with this upper directory
		}
	}
	return o.reusable
}

// End is for when nothing of a command lives that began at that moment: what it has written is removed, with the
// session.
func (o *Own) End(began time.Time) error {
	if o != nil && o.unwritten(began) && o.session.keep(o) {
		return nil
	}
	return o.Close()
}

func (o *Own) unwritten(began time.Time) bool {
	if !o.reusable || o.lock == "" {
		return false
	}
	for dir, was := range o.stamps {
		if !paths.Inside(o.Dir, dir) {
			continue
		}
		if now, err := stampOf(dir); err != nil || now != was || !now.settled(began) {
			return false
		}
	}
	// A process that could go on with mounts, or with a home, is waited for.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lock, err := hostpath.LockAt(ctx, unix.AT_FDCWD, o.lock, unix.LOCK_EX)
	if err == nil {
		hostpath.Unlock(lock)
	}
	return err == nil
}

// keep has o wait for another command, and reports whether it may.
func (s *Session) keep(o *Own) bool {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.closed || len(s.spare) >= maxSpare {
		return false
	}
	s.spare = append(s.spare, o)
	return true
}

// Close removes it, with all that was written.
func (o *Own) Close() error {
	if o == nil || o.dir == nil {
		return nil
	}
	return o.dir.Close()
}
