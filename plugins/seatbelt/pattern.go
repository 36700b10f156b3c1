package seatbelt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/internal/glob"
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
			case glob.One, glob.OneOf: // of a set any, which denies more
				s.expr += anyOne
			case glob.Many:
				if i == 0 || name.Parts[i-1].Kind != glob.Many {
					s.expr += "[^/]*"
				}
			}
		}
		p.segments = append(p.segments, s)
	}
	return p, nil
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
