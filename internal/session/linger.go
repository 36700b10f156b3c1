//go:build unix

package session

import (
	"cmp"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/stubs"
)

// defaultLinger is long enough for the next command of a program that runs one
// after another, and too short for a person to meet what lingers.
const defaultLinger = 100 * time.Millisecond

// A Lingerer keeps what holds the places of missing paths for some time after
// its command. Commands often come in a row, and to make and remove a dozen
// files for each costs more than to mount on them: it takes inodes, makes the
// directories that they lie in look changed, and takes away the mounts that a
// session's holder has of them.
type Lingerer struct {
	linger time.Duration

	mu     sync.Mutex
	last   map[string]*lingering
	closed bool
}

// lingering is what the last command in one sandbox has had.
type lingering struct {
	hold  *stubs.Hold
	timer *time.Timer
}

// NewLingerer makes one that keeps them for that long; zero means 100 milliseconds,
// negative not at all.
func NewLingerer(after time.Duration) *Lingerer {
	return &Lingerer{linger: cmp.Or(after, defaultLinger), last: map[string]*lingering{}}
}

// GiveUp releases hold, what a command in the sandbox has had, when no further
// command has come for a while.
func (l *Lingerer) GiveUp(sandbox string, hold *stubs.Hold) {
	if hold == nil {
		return
	}
	if l.linger < 0 {
		hold.Release() // what it cannot remove the next run does
		return
	}
	one := &lingering{hold: hold}
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

// Close releases everything now, and what comes later at once.
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
