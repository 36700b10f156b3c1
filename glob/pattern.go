package glob

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrPattern is wrapped by the errors for what is not a pattern.
var ErrPattern = errors.New("not a pattern")

// maxSegments is how many names a pattern may have; positions in it are bits
// of a word.
const maxSegments = 62

// A Pattern is a parsed pattern. Its path has no leading slash: what it is
// relative to is the caller's business.
type Pattern struct {
	text     string
	segments []segment
	dirOnly  bool
}

// A segment matches one name, or any number of them.
type segment struct {
	text    string // of a literal without its escapes, else as written
	literal bool
	deep    bool // "**"
}

// Parse reads a pattern. A leading slash is ignored. Errors wrap ErrPattern.
func Parse(text string) (*Pattern, error) {
	p := &Pattern{text: text}
	rest := strings.TrimLeft(text, "/")
	if strings.IndexByte(text, 0) >= 0 {
		return nil, fmt.Errorf("%q holds a NUL byte: %w", text, ErrPattern)
	}
	for rest != "" {
		end := segmentEnd(rest)
		name := rest[:end]
		p.dirOnly = end < len(rest)
		rest = strings.TrimLeft(rest[end:], "/")
		switch name {
		case ".":
			continue
		case "..":
			return nil, fmt.Errorf("%q has a \"..\" in it, which means something else after a symbolic link; write the path out: %w", text, ErrPattern)
		}
		s, err := parseSegment(name)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if s.deep && len(p.segments) > 0 && p.segments[len(p.segments)-1].deep {
			continue // "**/**" is "**"
		}
		p.segments = append(p.segments, s)
	}
	switch {
	case len(p.segments) == 0:
		return nil, fmt.Errorf("%q names nothing: %w", text, ErrPattern)
	case len(p.segments) > maxSegments/2: // the other half is for Rebase
		return nil, fmt.Errorf("%.40q... has %d names, more than %d: %w", text, len(p.segments), maxSegments/2, ErrPattern)
	}
	return p, nil
}

// segmentEnd finds the slash that ends the first name. An escaped one is a
// slash all the same: no name holds one.
func segmentEnd(s string) int {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return i
	}
	return len(s)
}

func parseSegment(name string) (segment, error) {
	if name == "**" {
		return segment{text: name, deep: true}, nil
	}
	var plain strings.Builder
	literal := true
	for rest := name; rest != ""; {
		switch c := rest[0]; c {
		case '{', '}':
			return segment{}, fmt.Errorf(`braces are not alternatives here; write one pattern for each, or \%c for the character: %w`, c, ErrPattern)
		case '*', '?':
			literal = false
			rest = rest[1:]
		case '[':
			literal = false
			_, after, err := parseClass(rest)
			if err != nil {
				return segment{}, err
			}
			rest = after
		case '\\':
			if len(rest) == 1 {
				return segment{}, fmt.Errorf("a backslash stands before nothing: %w", ErrPattern)
			}
			size := width(rest[1:])
			plain.WriteString(rest[1 : 1+size])
			rest = rest[1+size:]
		default:
			plain.WriteByte(c)
			rest = rest[1:]
		}
	}
	if literal {
		return segment{text: plain.String(), literal: true}, nil
	}
	return segment{text: name}, nil
}

// A class is a set of characters: pairs of first and last.
type class struct {
	ranges []rune
	negate bool
}

// parseClass reads the set that s begins with. A "]" that comes first is a
// member.
func parseClass(s string) (c class, rest string, err error) {
	rest = s[1:]
	if rest != "" && (rest[0] == '!' || rest[0] == '^') {
		c.negate, rest = true, rest[1:]
	}
	member := func() (rune, bool) {
		if rest != "" && rest[0] == '\\' {
			rest = rest[1:]
		}
		if rest == "" {
			return 0, false
		}
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		return r, true
	}
	for first := true; ; first = false {
		if rest == "" {
			return c, "", fmt.Errorf(`the "[" has no "]"; write \[ for the character: %w`, ErrPattern)
		}
		if rest[0] == ']' && !first {
			return c, rest[1:], nil
		}
		lo, ok := member()
		hi := lo
		if ok && len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			rest = rest[1:]
			hi, ok = member()
		}
		switch {
		case !ok:
			return c, "", fmt.Errorf(`the "[" has no "]"; write \[ for the character: %w`, ErrPattern)
		case lo == utf8.RuneError || hi == utf8.RuneError:
			return c, "", fmt.Errorf("a set holds bytes that are no UTF-8: %w", ErrPattern)
		case hi < lo:
			return c, "", fmt.Errorf("the range %c-%c runs backwards: %w", lo, hi, ErrPattern)
		}
		c.ranges = append(c.ranges, lo, hi)
	}
}

func (c *class) has(r rune) bool {
	for i := 0; i < len(c.ranges); i += 2 {
		if c.ranges[i] <= r && r <= c.ranges[i+1] {
			return !c.negate
		}
	}
	return c.negate
}

// width is how many bytes the first character of s has.
func width(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	return size
}

// String gives the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// DirOnly reports whether the pattern ends in a slash: it matches directories
// alone.
func (p *Pattern) DirOnly() bool { return p.dirOnly }

// Literal gives the one path that the pattern matches, without a leading
// slash, if there is only one.
func (p *Pattern) Literal() (string, bool) {
	path, rest := p.Base()
	return path, !rest
}

// Base gives the literal path that all matches begin with, without a leading
// slash, and whether anything follows it. It is empty where the first name
// varies.
func (p *Pattern) Base() (path string, more bool) {
	var names []string
	for _, s := range p.segments {
		if !s.literal {
			return strings.Join(names, "/"), true
		}
		names = append(names, s.text)
	}
	return strings.Join(names, "/"), false
}

// Rebase gives the pattern with another literal path in place of its Base. Its
// error wraps ErrPattern: that path is too deep.
func (p *Pattern) Rebase(base string) (*Pattern, error) {
	q := &Pattern{dirOnly: p.dirOnly}
	for name := range strings.SplitSeq(base, "/") {
		if name != "" {
			q.segments = append(q.segments, segment{text: name, literal: true})
		}
	}
	rest := p.segments
	for len(rest) > 0 && rest[0].literal {
		rest = rest[1:]
	}
	q.segments = append(q.segments, rest...)
	var b strings.Builder
	for _, s := range q.segments {
		b.WriteByte('/')
		if s.literal {
			b.WriteString(Quote(s.text))
		} else {
			b.WriteString(s.text)
		}
	}
	if p.dirOnly {
		b.WriteByte('/')
	}
	q.text = b.String()
	if len(q.segments) > maxSegments {
		return nil, fmt.Errorf("%.40q... has %d names, more than %d: %w", q.text, len(q.segments), maxSegments, ErrPattern)
	}
	return q, nil
}

// Match reports whether a path without a leading slash matches. Whether it is
// a directory is for the caller to know; see DirOnly.
func (p *Pattern) Match(path string) bool {
	at, accepted := p.start(), false
	for name := range strings.SplitSeq(path, "/") {
		at, accepted = p.step(at, name)
	}
	return accepted
}

// Quote gives the pattern that matches name and nothing else.
func Quote(name string) string {
	if !strings.ContainsAny(name, `*?[{}\`) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(`*?[{}\`, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
