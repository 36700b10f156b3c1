package glob

import "unicode/utf8"

// positions is where in a pattern a path can be: bit i says that the next name
// has to match segment i.
type positions uint64

func (p *Pattern) start() positions { return p.closure(1) }

// closure adds what "**" can be passed over to.
func (p *Pattern) closure(at positions) positions {
	for i, s := range p.segments {
		if s.deep && at&(1<<i) != 0 {
			at |= 1 << (i + 1)
		}
	}
	return at
}

// step consumes one name. Accepted says that the path that ends with it
// matches.
func (p *Pattern) step(at positions, name string) (next positions, accepted bool) {
	for i := range p.segments {
		if at&(1<<i) == 0 {
			continue
		}
		switch s := &p.segments[i]; {
		case s.deep:
			next |= 1 << i
		case s.literal && s.text == name, !s.literal && matchName(s.text, name):
			next |= 1 << (i + 1)
		}
	}
	// A last "**" matches what lies beneath, and so needs a name of its own.
	last := len(p.segments) - 1
	accepted = next&(1<<(last+1)) != 0 || p.segments[last].deep && at&(1<<last) != 0
	return p.closure(next) &^ (1 << (last + 1)), accepted
}

// matchName matches one name against a segment, going back to the latest "*"
// only: an earlier one can gain nothing.
func matchName(pattern, name string) bool {
	starred, retry, at := "", "", pattern
	hasStar := false
	for {
		if at != "" && at[0] == '*' {
			hasStar, at = true, at[1:]
			starred, retry = at, name
			continue
		}
		if name == "" {
			if at == "" {
				return true
			}
		} else if size, rest := matchOne(at, name); size > 0 {
			at, name = rest, name[size:]
			continue
		}
		if !hasStar || retry == "" {
			return false
		}
		retry = retry[width(retry):]
		at, name = starred, retry
	}
}

// matchOne matches the first character of name against the first element of
// pattern, which is no "*". It gives the character's bytes, or 0, and what
// follows the element.
func matchOne(pattern, name string) (size int, rest string) {
	if pattern == "" {
		return 0, ""
	}
	r, size := utf8.DecodeRuneInString(name)
	switch pattern[0] {
	case '?':
		return size, pattern[1:]
	case '[':
		c, rest, err := parseClass(pattern)
		if err != nil {
			return 0, "" // Parse has refused it
		}
		if r == utf8.RuneError && size == 1 {
			// A byte that is no character is in no set, and so in its complement.
			if c.negate {
				return size, rest
			}
			return 0, ""
		}
		if !c.has(r) {
			return 0, ""
		}
		return size, rest
	case '\\':
		pattern = pattern[1:]
	}
	size = width(pattern)
	if len(name) < size || name[:size] != pattern[:size] {
		return 0, ""
	}
	return size, pattern[size:]
}
