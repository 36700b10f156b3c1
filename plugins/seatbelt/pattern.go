package seatbelt

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/glob"
)

// A pattern is one entry of Spec.Deny or Spec.Protect, as package glob reads it. One
// that begins with a slash is a path of the host; any other is relative to each root
// of the workspace.
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

func parsePattern(text string) (pattern, error) {
	if !utf8.ValidString(text) {
		return pattern{}, fmt.Errorf("%q is not UTF-8, which no name of macOS can be", text)
	}
	parsed, err := glob.Parse(text)
	if err != nil {
		return pattern{}, err
	}
	p := pattern{absolute: strings.HasPrefix(text, "/")}
	for _, name := range parsed.Names() {
		s := segment{deep: name.Deep}
		s.text, s.plain = name.Literal()
		for i, part := range name.Parts {
			switch part.Kind {
			case glob.Text:
				s.expr += foldLiteral(part.Text)
			case glob.One:
				s.expr += anyOne
			case glob.Many:
				if i == 0 || name.Parts[i-1].Kind != glob.Many {
					s.expr += "[^/]*"
				}
			case glob.OneOf:
				s.expr += foldSet(part)
			}
		}
		p.segments = append(p.segments, s)
	}
	return p, nil
}

// foldSet is the expression for one character of a set. A set of letters and digits
// keeps its meaning, in either case; any other is any character, which denies more.
func foldSet(part glob.Part) string {
	var set strings.Builder
	without := "" // what a negated set excludes, as long as each can stand in one
	simple, spelled := true, true
	for pair := range slices.Chunk(part.Ranges, 2) {
		low, high := pair[0], pair[1]
		if low == high && (between(low, low, '0', '9') || between(low|32, low|32, 'a', 'z') || strings.ContainsRune("._-", low)) {
			without += string(low)
		} else {
			spelled = false
		}
		switch {
		case between(low, high, '0', '9'), between(low, high, 'a', 'z'), between(low, high, 'A', 'Z'):
			set.WriteString(setRange(low, high))
			if low > '9' {
				set.WriteString(setRange(low^32, high^32))
			}
			// The long s and the Kelvin sign are letters in another case.
			simple = simple && !(low|32 <= 'k' && 'k' <= high|32 || low|32 <= 's' && 's' <= high|32)
		default:
			simple = false
		}
	}
	switch {
	case part.Negate && spelled:
		// Not in another case: a negated set denies the less the more it excludes.
		if strings.Contains(without, "-") {
			without = strings.ReplaceAll(without, "-", "") + "-" // where it is no range
		}
		return "[^/" + without + "]"
	case !simple || part.Negate:
		return anyOne
	}
	return "[" + set.String() + "]"
}

func between(low, high, from, to rune) bool { return from <= low && high <= to }

func setRange(low, high rune) string {
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
