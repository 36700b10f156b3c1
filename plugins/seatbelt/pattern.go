package seatbelt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A pattern is one entry of Spec.Deny or Spec.Protect: names separated by
// slashes. "**" as a name is any number of directories, "*" and "?" are part of
// a name, "[a-z]" and "[!a-z]" one character, a backslash takes the next one as
// it is, and a final slash asks for a directory. One that begins with a slash is
// a path of the host; any other is relative to each root of the workspace.
type pattern struct {
	absolute bool
	segments []segment
}

// segment is one name, or any number of directories.
type segment struct {
	deep  bool   // "**"
	plain bool   // text has no wildcard
	text  string // as it is, where plain
	expr  string // the regular expression of one name
}

// maxSegments bounds the depth of a pattern, as that of the system's paths does.
const maxSegments = 128

func parsePattern(text string) (pattern, error) {
	p := pattern{absolute: strings.HasPrefix(text, "/")}
	if strings.IndexByte(text, 0) >= 0 {
		return p, fmt.Errorf("%q contains a NUL byte", text)
	}
	if !utf8.ValidString(text) {
		return p, fmt.Errorf("%q is not UTF-8, which no name of macOS can be", text)
	}
	for name := range strings.SplitSeq(text, "/") {
		switch name {
		case "", ".":
			continue
		case "..":
			return p, fmt.Errorf("%q has a \"..\" in it; write the path that is meant", text)
		}
		s, err := parseSegment(name)
		if err != nil {
			return p, fmt.Errorf("%q: %w", text, err)
		}
		if n := len(p.segments); s.deep && n > 0 && p.segments[n-1].deep {
			continue
		}
		p.segments = append(p.segments, s)
	}
	switch {
	case len(p.segments) == 0:
		return p, fmt.Errorf("%q names nothing", text)
	case len(p.segments) > maxSegments:
		return p, fmt.Errorf("%.40q... has more than %d names", text, maxSegments)
	}
	return p, nil
}

func parseSegment(name string) (segment, error) {
	if name == "**" {
		return segment{deep: true}, nil
	}
	s := segment{plain: true}
	var literal, whole, expr strings.Builder
	flush := func() {
		expr.WriteString(foldLiteral(literal.String()))
		literal.Reset()
	}
	for rest := name; rest != ""; {
		switch c := rest[0]; c {
		case '*':
			flush()
			s.plain = false
			expr.WriteString("[^/]*")
			rest = strings.TrimLeft(rest, "*")
		case '?':
			flush()
			s.plain = false
			expr.WriteString(anyOne)
			rest = rest[1:]
		case '[':
			flush()
			s.plain = false
			class, after, err := parseClass(rest)
			if err != nil {
				return s, err
			}
			expr.WriteString(class)
			rest = after
		case '{', '}':
			return s, fmt.Errorf("braces are not alternatives here; write one pattern for each, or \\%c for the character", c)
		case '\\':
			if rest = rest[1:]; rest == "" {
				return s, fmt.Errorf("a backslash stands before nothing")
			}
			fallthrough
		default:
			_, size := utf8.DecodeRuneInString(rest)
			literal.WriteString(rest[:size])
			whole.WriteString(rest[:size])
			rest = rest[size:]
		}
	}
	flush()
	s.text, s.expr = whole.String(), expr.String()
	return s, nil
}

// parseClass reads "[...]". A set of letters and digits keeps its meaning, in
// either case; any other is any character, which denies more.
func parseClass(s string) (expr, rest string, err error) {
	at := 1
	negated := at < len(s) && (s[at] == '!' || s[at] == '^')
	if negated {
		at++
	}
	var set strings.Builder
	without := "" // what a negated set excludes, as long as each can stand in one
	simple, spelled := true, true
	for first := true; ; first = false {
		if at >= len(s) {
			return "", "", fmt.Errorf("a [ has no ]")
		}
		if s[at] == ']' && !first {
			at++
			break
		}
		low, size, err := classCharacter(s[at:])
		if err != nil {
			return "", "", err
		}
		at += size
		high := low
		if at+1 < len(s) && s[at] == '-' && s[at+1] != ']' {
			if high, size, err = classCharacter(s[at+1:]); err != nil {
				return "", "", err
			}
			at += 1 + size
		}
		if high < low {
			return "", "", fmt.Errorf("the range %c-%c is empty", low, high)
		}
		if low == high && (between(low, low, '0', '9') || between(low|32, low|32, 'a', 'z') || strings.ContainsRune("._-", low)) {
			without += string(low)
		} else {
			spelled = false
		}
		switch {
		case between(low, high, '0', '9'), between(low, high, 'a', 'z'), between(low, high, 'A', 'Z'):
			set.WriteString(classRange(low, high))
			if low > '9' {
				set.WriteString(classRange(low^32, high^32))
			}
			// The long s and the Kelvin sign are letters in another case.
			simple = simple && !(low|32 <= 'k' && 'k' <= high|32 || low|32 <= 's' && 's' <= high|32)
		default:
			simple = false
		}
	}
	switch {
	case negated && spelled:
		// Not in another case: a negated set denies the less the more it excludes.
		if dash := strings.Count(without, "-"); dash > 0 {
			without = strings.ReplaceAll(without, "-", "") + "-" // where it is no range
		}
		return "[^/" + without + "]", s[at:], nil
	case !simple || negated:
		return anyOne, s[at:], nil
	}
	return "[" + set.String() + "]", s[at:], nil
}

func classCharacter(s string) (rune, int, error) {
	escaped := 0
	if s[0] == '\\' {
		if len(s) == 1 {
			return 0, 0, fmt.Errorf("a backslash stands before nothing")
		}
		escaped = 1
	}
	r, size := utf8.DecodeRuneInString(s[escaped:])
	return r, escaped + size, nil
}

func between(low, high, from, to rune) bool { return from <= low && high <= to }

func classRange(low, high rune) string {
	if low == high {
		return string(low)
	}
	return string(low) + "-" + string(high)
}

// literal gives the path of the host that a pattern without wildcards is.
func (p pattern) literal() (path string, ok bool) {
	for _, s := range p.segments {
		if s.deep || !s.plain {
			return "", false
		}
		path += "/" + s.text
	}
	if !p.absolute {
		return "", false
	}
	return path, true
}

// under gives the pattern below a directory of the host.
func (p pattern) under(dir string) pattern {
	return pattern{absolute: true, segments: append(literalSegments(dir), p.segments...)}
}

// base gives the path of the host that an absolute pattern begins with.
func (p pattern) base() (dir string) {
	for _, s := range p.segments {
		if s.deep || !s.plain {
			break
		}
		dir += "/" + s.text
	}
	return dir
}

func literalSegments(path string) (segments []segment) {
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name != "" {
			segments = append(segments, segment{plain: true, text: name, expr: foldLiteral(name)})
		}
	}
	return segments
}

// systemLinks are the links at the top of every macOS. The kernel goes by what
// they lead to.
var systemLinks = map[string]string{
	"tmp": "/private/tmp", "var": "/private/var", "etc": "/private/etc", "home": dataVolume + "/home",
}

// throughLinks gives an absolute pattern as the kernel has its first name.
func (p pattern) throughLinks() pattern {
	if first := p.segments[0]; first.plain {
		if target, ok := systemLinks[strings.ToLower(first.text)]; ok {
			p.segments = append(literalSegments(target), p.segments[1:]...)
		}
	}
	return p
}

// anchor begins every expression: a path, by either of its names.
const anchor = `^(` + dataVolume + `)?`

// regex is the regular expression for what the pattern matches, and with tail
// for all that lies beneath.
func (p pattern) regex(tail bool) string {
	var b strings.Builder
	b.WriteString(anchor)
	for i, s := range p.segments {
		last := i == len(p.segments)-1
		switch {
		case s.deep && last:
			b.WriteString("/[^/]+")
		case s.deep:
			b.WriteString("(/[^/]+)*")
		default:
			b.WriteString("/" + s.expr)
		}
	}
	if tail {
		b.WriteString("(/.*)?")
	}
	b.WriteString("$")
	return b.String()
}

// lastWildcard is the index of the last directory of p for which any name will
// do, or -1. Such a directory can be renamed.
func (p pattern) lastWildcard() int {
	for i := len(p.segments) - 2; i >= 0; i-- {
		if s := p.segments[i]; s.deep || !s.plain {
			return i
		}
	}
	return -1
}

// movable gives what follows the last directory of p that can be renamed: that
// must be met wherever the directory can be moved to.
func (p pattern) movable() (tail pattern, ok bool) {
	i := p.lastWildcard()
	if i < 0 {
		return pattern{}, false
	}
	return pattern{segments: append([]segment{{deep: true}}, p.segments[i+1:]...)}, true
}

// ancestors are the directories above what p matches whose own names are given,
// back to the last that can be renamed: they have to stay in their places.
func (p pattern) ancestors() (list []pattern) {
	for n := p.lastWildcard() + 2; n < len(p.segments); n++ {
		list = append(list, pattern{absolute: p.absolute, segments: p.segments[:n]})
	}
	return list
}
