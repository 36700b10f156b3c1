package glob

import (
	"strings"
	"unicode/utf8"
)

// positions says where in a pattern a path can be: bit i means that the next name has to match name
// i of the pattern.
type positions uint64

func (p *Pattern) start() positions { return p.closure(1) }

// closure adds the positions after each "**".
func (p *Pattern) closure(at positions) positions {
	for i, n := range p.names {
		if n.Deep && at&(1<<i) != 0 {
			at |= 1 << (i + 1)
		}
	}
	return at
}

// step consumes one name. accepted says that the path up to this name matches.
func (p *Pattern) step(at positions, name string) (next positions, accepted bool) {
	for i := range p.names {
		if at&(1<<i) == 0 {
			continue
		}
		switch n := &p.names[i]; {
		case n.Deep:
			next |= 1 << i
		case matchName(n.Parts, name):
			next |= 1 << (i + 1)
		}
	}
	// A last "**" matches paths beneath, and so needs a name of its own.
	last := len(p.names) - 1
	accepted = next&(1<<(last+1)) != 0 || p.names[last].Deep && at&(1<<last) != 0
	return p.closure(next) &^ (1 << (last + 1)), accepted
}

// matchName matches one name against its parts. It goes back to the latest "*" only: an earlier one
// cannot help.
func matchName(parts []Part, name string) bool {
	var starred []Part
	retry, hasStar := "", false
	for at := parts; ; {
		if len(at) > 0 && at[0].Kind == Many {
			hasStar, at = true, at[1:]
			starred, retry = at, name
			continue
		}
		if len(at) == 0 && name == "" {
			return true
		}
		if len(at) > 0 && name != "" {
			if size := at[0].match(name); size > 0 {
				at, name = at[1:], name[size:]
				continue
			}
		}
		if !hasStar || retry == "" {
			return false
		}
		retry = retry[width(retry):]
		at, name = starred, retry
	}
}

// match returns how many bytes at the start of a non-empty name a part matches, or 0. The part is
// not Many.
func (p *Part) match(name string) int {
	r, size := utf8.DecodeRuneInString(name)
	switch {
	case p.Kind == Text && strings.HasPrefix(name, p.Text):
		return len(p.Text)
	case p.Kind == Text:
		return 0
	case p.Kind == OneOf && r == utf8.RuneError && size == 1:
		if !p.Negate { // a byte that is not a character is in no set, and so in its complement
			return 0
		}
	case p.Kind == OneOf && !p.has(r):
		return 0
	}
	return size
}
