package glob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrPattern is wrapped by the errors for an invalid pattern.
var ErrPattern = errors.New("not a pattern")

// maxNames is how many names a pattern may have; the positions in it are bits of a word.
const maxNames = 62

// A Pattern is a parsed pattern. Its path has no leading slash: the caller knows the directory to
// which it is relative.
type Pattern struct {
	text    string
	names   []Name
	dirOnly bool
	except  bool
}

// A Name matches one name of a path or, if it is Deep, any number of names ("**").
type Name struct {
	Deep  bool
	Parts []Part
	text  string // as written
}

// A Part matches one or more characters of a name.
type Part struct {
	Kind Kind
	Text string // of Text
	// Ranges are pairs of first and last character, of OneOf. Negate means all characters that are
	// not in the set.
	Ranges []rune
	Negate bool
}

// Kind says what a Part matches.
type Kind uint8

const (
	Text  Kind = iota // its own text
	One               // "?": any character
	Many              // "*": any number of any characters
	OneOf             // "[...]": one of a set
)

// Literal returns the one name that matches, if there is only one.
func (n *Name) Literal() (string, bool) {
	if n.Deep || len(n.Parts) != 1 || n.Parts[0].Kind != Text {
		return "", false
	}
	return n.Parts[0].Text, true
}

// Parse reads a pattern. It ignores a leading slash. Errors wrap ErrPattern.
func Parse(text string) (*Pattern, error) {
	p := &Pattern{text: text, dirOnly: strings.HasSuffix(text, "/")}
	names, except := strings.CutPrefix(text, "!")
	p.except = except
	if strings.IndexByte(text, 0) >= 0 {
		return nil, fmt.Errorf("%q holds a NUL byte: %w", text, ErrPattern)
	}
	// An escaped slash is still a slash: no name contains one.
	for name := range strings.SplitSeq(names, "/") {
		switch name {
		case "", ".":
			continue
		case "..":
			return nil, fmt.Errorf("%q has a \"..\" in it, which means something else after a symbolic link; write the path out: %w", text, ErrPattern)
		}
		n, err := parseName(name)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if n.Deep && len(p.names) > 0 && p.names[len(p.names)-1].Deep {
			continue // "**/**" is "**"
		}
		p.names = append(p.names, n)
	}
	return p, p.check()
}

func (p *Pattern) check() error {
	switch {
	case len(p.names) == 0:
		return fmt.Errorf("%q names nothing: %w", p.text, ErrPattern)
	case len(p.names) > maxNames:
		return fmt.Errorf("%.40q... has %d names, more than %d: %w", p.text, len(p.names), maxNames, ErrPattern)
	}
	return nil
}

func parseName(name string) (Name, error) {
	n := Name{text: name, Deep: name == "**"}
	if n.Deep {
		return n, nil
	}
	for rest := name; rest != ""; {
		part := Part{}
		switch c := rest[0]; c {
		case '{', '}':
			return n, fmt.Errorf(`braces are not alternatives here; write one pattern for each, or \\%c for the character (HCL needs two backslashes): %w`, c, ErrPattern)
		case '*':
			part.Kind, rest = Many, rest[1:]
		case '?':
			part.Kind, rest = One, rest[1:]
		case '[':
			var err error
			if part, rest, err = parseSet(rest); err != nil {
				return n, err
			}
		case '\\':
			if rest = rest[1:]; rest == "" {
				return n, fmt.Errorf("a backslash stands before nothing: %w", ErrPattern)
			}
			fallthrough
		default:
			size := width(rest)
			if last := len(n.Parts) - 1; last >= 0 && n.Parts[last].Kind == Text {
				n.Parts[last].Text += rest[:size]
				rest = rest[size:]
				continue
			}
			part.Text, rest = rest[:size], rest[size:]
		}
		n.Parts = append(n.Parts, part)
	}
	return n, nil
}

// parseSet reads the set at the start of s. A "]" at the first position is a member.
func parseSet(s string) (set Part, rest string, err error) {
	set.Kind, rest = OneOf, s[1:]
	if rest != "" && (rest[0] == '!' || rest[0] == '^') {
		set.Negate, rest = true, rest[1:]
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
			return set, "", fmt.Errorf(`the "[" has no "]"; write \\[ for the character (HCL needs two backslashes): %w`, ErrPattern)
		}
		if rest[0] == ']' && !first {
			return set, rest[1:], nil
		}
		lo, ok := member()
		hi := lo
		if ok && len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			rest = rest[1:]
			hi, ok = member()
		}
		switch {
		case !ok:
			return set, "", fmt.Errorf(`the "[" has no "]"; write \\[ for the character (HCL needs two backslashes): %w`, ErrPattern)
		case lo == utf8.RuneError || hi == utf8.RuneError:
			return set, "", fmt.Errorf("a set holds bytes that are no UTF-8: %w", ErrPattern)
		case hi < lo:
			return set, "", fmt.Errorf("the range %c-%c runs backwards: %w", lo, hi, ErrPattern)
		}
		set.Ranges = append(set.Ranges, lo, hi)
	}
}

func (p *Part) has(r rune) bool {
	for i := 0; i < len(p.Ranges); i += 2 {
		if p.Ranges[i] <= r && r <= p.Ranges[i+1] {
			return !p.Negate
		}
	}
	return p.Negate
}

// width returns how many bytes the first character of s has.
func width(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	return size
}

// String returns the pattern as written.
func (p *Pattern) String() string { return p.text }

// DirOnly reports whether the pattern ends in a slash: it matches only directories.
func (p *Pattern) DirOnly() bool { return p.dirOnly }

// Except reports whether the pattern exempts, in a Set, matches of earlier patterns.
func (p *Pattern) Except() bool { return p.except }

// Meets reports whether one path can match both patterns.
func (p *Pattern) Meets(q *Pattern) bool {
	no := map[[2]int]bool{} // pairs already tried
	var meets func(i, j int) bool
	meets = func(i, j int) bool {
		if i == len(p.names) || j == len(q.names) || no[[2]int{i, j}] {
			return i == len(p.names) && j == len(q.names)
		}
		a, b := &p.names[i], &q.names[j]
		ok := a.Deep && (i+1 < len(p.names) && meets(i+1, j) || meets(i, j+1) || meets(i+1, j+1)) ||
			b.Deep && (j+1 < len(q.names) && meets(i, j+1) || meets(i+1, j) || meets(i+1, j+1)) ||
			!a.Deep && !b.Deep && a.meets(b) && meets(i+1, j+1)
		no[[2]int{i, j}] = !ok
		return ok
	}
	return meets(0, 0)
}

// meets reports whether one name can match both.
func (n *Name) meets(o *Name) bool {
	if text, ok := n.Literal(); ok {
		return matchName(o.Parts, text)
	}
	text, ok := o.Literal()
	return !ok || matchName(n.Parts, text)
}

// Base returns the literal path with which all matches begin, without a leading slash, and whether
// anything follows it. It is empty if the first name varies.
func (p *Pattern) Base() (path string, more bool) {
	var names []string
	for i := range p.names {
		name, ok := p.names[i].Literal()
		if !ok {
			return strings.Join(names, "/"), true
		}
		names = append(names, name)
	}
	return strings.Join(names, "/"), false
}

// Rebase returns the pattern with another literal path instead of its Base. The error wraps
// ErrPattern if that path is too deep.
func (p *Pattern) Rebase(base string) (*Pattern, error) {
	q := &Pattern{dirOnly: p.dirOnly}
	for name := range strings.SplitSeq(base, "/") {
		if name != "" {
			q.names = append(q.names, Name{Parts: []Part{{Text: name}}, text: Quote(name)})
		}
	}
	rest := slices.IndexFunc(p.names, func(n Name) bool { _, ok := n.Literal(); return !ok })
	if rest >= 0 {
		q.names = append(q.names, p.names[rest:]...)
	}
	if q.except = p.except; q.except {
		q.text = "!"
	}
	for _, n := range q.names {
		q.text += "/" + n.text
	}
	if p.dirOnly {
		q.text += "/"
	}
	return q, q.check()
}

// Match reports whether a path without a leading slash matches. The caller must check whether it is
// a directory; see DirOnly.
func (p *Pattern) Match(path string) bool {
	at, accepted := p.start(), false
	for name := range strings.SplitSeq(path, "/") {
		at, accepted = p.step(at, name)
	}
	return accepted
}

// Quote returns the pattern that matches exactly name.
func Quote(name string) string {
	if !strings.ContainsAny(name, `*?[{}\!`) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(`*?[{}\`, name[i]) >= 0 || i == 0 && name[i] == '!' {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
