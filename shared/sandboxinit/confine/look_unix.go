//go:build unix

package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Look gives l with what its rules are about now: the domain of a thread that enters it is about
// exactly that, or it does not enter.
func (l *Landlock) Look() *Landlock {
	looked := *l
	looked.Rules = slices.Clone(l.Rules)
	for i := range looked.Rules {
		r := &looked.Rules[i]
		r.Dev, r.Ino = r.identity()
	}
	return &looked
}

// Holds reports whether l, of Look, is still what other would be: the same rules about the same files.
func (l *Landlock) Holds(other *Landlock) bool {
	if l == nil || other == nil {
		return l == other
	}
	return l.Handled == other.Handled && l.Scoped == other.Scoped && slices.EqualFunc(l.Rules, other.Rules, func(was, is Rule) bool {
		is.Dev, is.Ino = is.identity()
		return was == is
	})
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
