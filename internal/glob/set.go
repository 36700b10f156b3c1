package glob

import (
	"path"
	"strings"
)

// A Set is a list of patterns that are followed together.
type Set struct {
	patterns []*Pattern
}

// NewSet makes a Set. The order determines which pattern a match reports.
func NewSet(patterns ...*Pattern) *Set { return &Set{patterns} }

// State is the position of a path in each of a Set's patterns. No method changes it; two states are
// equal if their elements are.
type State []positions

// Start returns the state before the first name.
func (s *Set) Start() State {
	st := make(State, len(s.patterns))
	for i, p := range s.patterns {
		st[i] = p.start()
	}
	return st
}

// Match is the result for a path: the first pattern that matches the whole path, directory or not,
// and the first that matches if it is a directory, both after the last pattern that exempts it.
// Each is -1 for none.
type Match struct {
	Any, Dir int
}

// None is the Match of a path that no pattern matches.
var None = Match{-1, -1}

// Match returns the result for the path of st and one more name.
func (s *Set) Match(st State, name string) Match {
	m := None
	for i, p := range s.patterns {
		_, ok := p.step(st[i], name)
		switch {
		case !ok:
		case p.except && p.dirOnly:
			m.Dir = -1
		case p.except:
			m = None
		default:
			if m.Dir < 0 {
				m.Dir = i
			}
			if !p.dirOnly && m.Any < 0 {
				m.Any = i
			}
		}
	}
	return m
}

// Cover returns the first pattern that matches a path, or one above it; -1 for none.
func (s *Set) Cover(p string, directory bool) int {
	above, name := path.Split(p)
	state, hide := s.At(above)
	m := s.Match(state, name)
	if hide > 0 {
		return hide - 1
	} else if directory {
		return m.Dir
	}
	return m.Any
}

// Next returns the state in the directory of that name.
func (s *Set) Next(st State, name string) State {
	next := make(State, len(st))
	for i, p := range s.patterns {
		next[i], _ = p.step(st[i], name)
	}
	return next
}

// At returns the state in the directory at a path, and 1 + the index of the pattern that matches it or
// a directory above it, or 0.
func (s *Set) At(path string) (state State, hide int) {
	state = s.Start()
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' }) {
		if m := s.Match(state, name); m.Dir >= 0 && hide == 0 {
			hide = m.Dir + 1
		}
		state = s.Next(state, name)
	}
	return state, hide
}

// Behind returns the first pattern that matches a symlink as if it were a directory, or can match
// behind it and not where it leads; -1 for none.
func (s *Set) Behind(link, end string) int {
	state, hide := s.At(link)
	lies, hidden := s.At(end)
	if hide > 0 || hidden > 0 {
		return hide - 1
	}
	return s.Uncovered(state, lies)
}

// Uncovered returns the first pattern, apart from exemptions, by which something matches from st and
// not from other; -1 for none.
func (s *Set) Uncovered(st, other State) int {
	for i, at := range st {
		if !s.patterns[i].except && at&^other[i] != 0 {
			return i
		}
	}
	return -1
}
