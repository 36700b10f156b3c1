//go:build unix

package session

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/sessiondir"
)

// Own is the session of one command, of a Host whose commands share nothing: a directory for what it
// writes to overlays. A further command may have it if it is as it was made.
type Own struct {
	State
	dir  *sessiondir.Dir
	made map[string]string // what was there then; nil where that is not known
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

// Made takes down what is in it, before a command runs.
func (o *Own) Made() { o.made = o.look() }

// AsMade reports whether nobody has written anything to it since.
func (o *Own) AsMade() bool {
	if o.made == nil || o.Dir == "" {
		return false
	}
	is := o.look()
	if len(is) != len(o.made) {
		return false
	}
	for p, state := range is {
		if o.made[p] != state {
			return false
		}
	}
	return true
}

// look gives what lies there, with the times of change, which nobody can set; nil where that cannot be told. The
// directories that the kernel works in are left out.
func (o *Own) look() map[string]string {
	found := map[string]string{}
	err := filepath.WalkDir(o.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "work" && unix.Access(filepath.Join(filepath.Dir(p), "upper"), 0) == nil {
			return fs.SkipDir
		}
		if len(found) > maxOwn {
			return syscall.E2BIG
		}
		found[p] = fmt.Sprint(st.Dev, st.Ino, st.Mode, st.Uid, st.Gid, st.Ctim)
		return nil
	})
	if err != nil {
		return nil
	}
	return found
}

// maxOwn is more than an engine makes.
const maxOwn = 200

// Close removes it, with all that was written.
func (o *Own) Close() error {
	if o == nil || o.dir == nil {
		return nil
	}
	return o.dir.Close()
}
