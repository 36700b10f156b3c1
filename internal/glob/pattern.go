package glob

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
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
	dirOnly bool // it ends in a slash, and matches only directories
	except  bool
}

// A Name matches one name of a path or, if it is deep, any number of names ("**").
type Name struct {
	text   string // as written
	deep   bool
	varies bool   // several names match
	match  string // the only name that matches or, if it varies, a pattern of package path
}

// matches reports whether it matches one name.
func (n *Name) matches(name string) bool {
	if !n.varies {
		return name == n.match
	}
	ok, _ := path.Match(n.match, name) // parseName made it valid
	return ok
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
		if n.deep && len(p.names) > 0 && p.names[len(p.names)-1].deep {
			continue // "**/**" is "**"
		}
		p.names = append(p.names, n)
	}
	switch {
	case len(p.names) == 0:
		return nil, fmt.Errorf("%q names nothing: %w", text, ErrPattern)
	case len(p.names) > maxNames:
		return nil, fmt.Errorf("%.40q... has %d names, more than %d: %w", text, len(p.names), maxNames, ErrPattern)
	}
	return p, nil
}

func parseName(text string) (Name, error) {
	n := Name{text: text, deep: text == "**"}
	var literal, shell []byte
	for rest := text; rest != "" && !n.deep; {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case '{', '}':
			return n, fmt.Errorf(`braces have no meaning; write one pattern for each; "\\%c" is a literal %c: %w`, c, c, ErrPattern)
		case '*', '?':
			n.varies, shell = true, append(shell, c)
			continue
		case '[':
			set, more, err := parseSet(rest)
			if err != nil {
				return n, err
			}
			n.varies, shell, rest = true, append(shell, set...), more
			continue
		case '\\':
			if rest == "" {
				return n, fmt.Errorf("a backslash stands before nothing: %w", ErrPattern)
			}
			c, rest = rest[0], rest[1:]
		}
		literal, shell = append(literal, c), append(shell, '\\', c)
	}
	if n.match = string(literal); n.varies {
		n.match = string(shell)
	}
	return n, nil
}

// parseSet translates a set, whose text begins after the "[", for package path, which takes ranges
// that run backwards, and bytes that are no UTF-8, without a word.
func parseSet(text string) (set, rest string, err error) {
	end := 0
	for end < len(text) && text[end] != ']' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(text) {
		return "", "", fmt.Errorf(`the "[" has no "]"; write \\[ for the character (HCL needs two backslashes): %w`, ErrPattern)
	}
	negation, characters := "", text[:end]
	if text[0] == '!' || text[0] == '^' {
		negation, characters = "^", text[1:end]
	}
	set = "[" + negation + characters + "]"
	one, err := regexp.Compile("[" + characters + "]")
	if _, bad := path.Match(set, ""); bad != nil || err != nil || one.MatchString("\xff") {
		return "", "", fmt.Errorf(`"[%s]" is not a set such as [a-z] or [!a-z]; write \\] and \\- for these characters (HCL needs two backslashes): %w`, text[:end], ErrPattern)
	}
	return set, text[end+1:], nil
}

// String returns the pattern as written.
func (p *Pattern) String() string { return p.text }

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
		ok := a.deep && (i+1 < len(p.names) && meets(i+1, j) || meets(i, j+1) || meets(i+1, j+1)) ||
			b.deep && (j+1 < len(q.names) && meets(i, j+1) || meets(i+1, j) || meets(i+1, j+1)) ||
			!a.deep && !b.deep && a.meets(b) && meets(i+1, j+1)
		no[[2]int{i, j}] = !ok
		return ok
	}
	return meets(0, 0)
}

// meets reports whether one name can match both, or, if both vary, may.
func (n *Name) meets(o *Name) bool {
	switch {
	case !n.varies:
		return o.matches(n.match)
	case !o.varies:
		return n.matches(o.match)
	}
	return true
}

// Base returns the literal path with which all matches begin, without a leading slash, and whether
// anything follows it. It is empty if the first name varies.
func (p *Pattern) Base() (path string, more bool) {
	var names []string
	for i := range p.names {
		if p.names[i].deep || p.names[i].varies {
			return strings.Join(names, "/"), true
		}
		names = append(names, p.names[i].match)
	}
	return strings.Join(names, "/"), false
}

// Rebase returns the pattern with another literal path instead of its Base. The error wraps
// ErrPattern if that path is too deep.
func (p *Pattern) Rebase(base string) (*Pattern, error) {
	text := Quote(base)
	if i := slices.IndexFunc(p.names, func(n Name) bool { return n.deep || n.varies }); i >= 0 {
		for _, n := range p.names[i:] {
			text += "/" + n.text
		}
	}
	if p.dirOnly {
		text += "/"
	}
	if p.except {
		text = "!" + text
	}
	return Parse(text)
}

// Quote returns the pattern that matches exactly name, or path.
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
