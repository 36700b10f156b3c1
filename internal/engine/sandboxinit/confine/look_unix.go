//go:build unix

package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Look gives l with the files that its rules are about now. A thread can enter that domain only while
// these are there.
func (l *Landlock) Look() *Landlock {
	if l == nil {
		return nil
	}
	looked := l.With(nil)
	for i := range looked.Rules {
		r := &looked.Rules[i]
		r.Dev, r.Ino = r.identity()
	}
	return looked
}

// Holds reports whether l, of Look, is still about the same files, and begins with the rules of other.
func (l *Landlock) Holds(other *Landlock) bool {
	if l == nil || other == nil {
		return l == other
	}
	if l.Handled != other.Handled || l.Scoped != other.Scoped || len(l.Rules) < len(other.Rules) {
		return false
	}
	for i, r := range l.Rules {
		if dev, ino := r.identity(); dev != r.Dev || ino != r.Ino {
			return false
		}
		if r.Dev, r.Ino = 0, 0; i < len(other.Rules) && r != other.Rules[i] {
			return false
		}
	}
	return true
}

// With gives l with rules more.
func (l *Landlock) With(more []Rule) *Landlock {
	joined := *l
	joined.Rules = slices.Concat(l.Rules, more)
	return &joined
}

// identity is zero of what is not there.
func (r *Rule) identity() (dev, ino uint64) {
	var st unix.Stat_t
	look := unix.Lstat
	if r.Links {
		look = unix.Stat
	}
	if look(r.Path, &st) != nil {
		return 0, 0
	}
	return uint64(st.Dev), st.Ino
}
