//go:build unix

package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Look returns l with the identities of its rules' current files. A thread can enter that domain
// only while these exist.
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

// Holds reports whether l, from Look, still has the same files, and begins with the rules of other.
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

// With returns l with additional rules.
func (l *Landlock) With(more []Rule) *Landlock {
	joined := *l
	joined.Rules = slices.Concat(l.Rules, more)
	return &joined
}

// identity is zero for a missing file.
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
