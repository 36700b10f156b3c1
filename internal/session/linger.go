//go:build unix

package session

import (
	"cmp"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/stubs"
)

// defaultLinger is long enough for the next command of a program that runs one after another, and
// too short for a person to see the stubs.
const defaultLinger = 100 * time.Millisecond

// A Lingerer keeps stubs for missing paths for some time after their command. Commands often come
// in a row, and to make and remove a dozen files for each costs more than to mount on them: it
// takes inodes, changes their directories, and removes the mounts of a session's holder.
type Lingerer struct {
	linger time.Duration

	mu     sync.Mutex
	last   map[string]*lingeringHold
	closed bool
}

// lingeringHold is the hold of the last command in one sandbox.
type lingeringHold struct {
	hold  *stubs.Hold
	timer *time.Timer
}

// NewLingerer makes a Lingerer that keeps stubs that long; zero means 100 milliseconds, negative
// not at all.
func NewLingerer(after time.Duration) *Lingerer {
	return &Lingerer{linger: cmp.Or(after, defaultLinger), last: map[string]*lingeringHold{}, closed: after < 0}
}

// GiveUp releases hold, of a command in the sandbox, when no further command has come for a while.
func (l *Lingerer) GiveUp(sandbox string, hold *stubs.Hold) {
	if hold == nil {
		return
	}
	one := &lingeringHold{hold: hold}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		hold.Release()
		return
	}
	if before := l.last[sandbox]; before != nil {
		before.timer.Stop()
		before.hold.Release()
	}
	l.last[sandbox] = one
	one.timer = time.AfterFunc(l.linger, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last[sandbox] == one {
			delete(l.last, sandbox)
			one.hold.Release()
		}
	})
}

// Close releases everything now, and later holds at once.
func (l *Lingerer) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, one := range l.last {
		one.timer.Stop()
		one.hold.Release()
	}
	clear(l.last)
}
