package seatbelt

import (
	"fmt"
	"strings"
)

// sbplNode is a list, an atom, a string or a regular expression.
type sbplNode struct {
	kind sbplKind
	text string
	list []sbplNode
	line int
}

type sbplKind int

const (
	sbplList sbplKind = iota
	sbplAtom
	sbplText
	sbplRegex
)

func (n sbplNode) isList(head string) bool {
	return n.kind == sbplList && len(n.list) > 0 && n.list[0].kind == sbplAtom && n.list[0].text == head
}

// readSBPL parses a whole text into its top-level expressions.
func readSBPL(source string) ([]sbplNode, error) {
	r := &sbplReader{source: source, line: 1}
	var out []sbplNode
	for {
		if r.skip(); r.at == len(r.source) {
			return out, nil
		}
		n, err := r.expression(0)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.line, err)
		}
		out = append(out, n)
	}
}

type sbplReader struct {
	source string
	at     int
	line   int
}

// skip passes white space and comments.
func (r *sbplReader) skip() {
	for r.at < len(r.source) {
		switch c := r.source[r.at]; c {
		case '\n':
			r.line++
			r.at++
		case ' ', '\t', '\r':
			r.at++
		case ';':
			for r.at < len(r.source) && r.source[r.at] != '\n' {
				r.at++
			}
		default:
			return
		}
	}
}

const maxSBPLDepth = 64

func (r *sbplReader) expression(depth int) (sbplNode, error) {
	if depth > maxSBPLDepth {
		return sbplNode{}, fmt.Errorf("nested too deeply")
	}
	if r.skip(); r.at == len(r.source) {
		return sbplNode{}, fmt.Errorf("the text ends in the middle of an expression")
	}
	n := sbplNode{line: r.line}
	switch c := r.source[r.at]; {
	case c == '(':
		r.at++
		for {
			if r.skip(); r.at == len(r.source) {
				return n, fmt.Errorf("a ( of line %d has no )", n.line)
			}
			if r.source[r.at] == ')' {
				r.at++
				return n, nil
			}
			item, err := r.expression(depth + 1)
			if err != nil {
				return n, err
			}
			n.list = append(n.list, item)
		}
	case c == ')':
		return n, fmt.Errorf("a ) without its (")
	case c == '"':
		s, err := r.quoted(false)
		n.kind, n.text = sbplText, s
		return n, err
	case strings.HasPrefix(r.source[r.at:], `#"`):
		r.at++
		s, err := r.quoted(true)
		n.kind, n.text = sbplRegex, s
		return n, err
	}
	end := r.at
	for end < len(r.source) && !strings.ContainsRune(" \t\r\n()\";", rune(r.source[end])) {
		end++
	}
	n.kind, n.text = sbplAtom, r.source[r.at:end]
	r.at = end
	if n.text == "" || strings.ContainsAny(n.text, "#'`,") {
		return n, fmt.Errorf("%q is not understood", n.text)
	}
	return n, nil
}

// quoted reads a string; in a raw one a backslash stands for itself, but a
// quote after it does not end it.
func (r *sbplReader) quoted(raw bool) (string, error) {
	start := r.line
	var b strings.Builder
	for r.at++; r.at < len(r.source); r.at++ {
		switch c := r.source[r.at]; c {
		case '"':
			r.at++
			return b.String(), nil
		case '\n':
			r.line++
			b.WriteByte(c)
		case '\\':
			if r.at++; r.at == len(r.source) {
				return "", fmt.Errorf("the string of line %d has no end", start)
			}
			if raw {
				b.WriteByte('\\')
			}
			b.WriteByte(r.source[r.at])
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("the string of line %d has no end", start)
}
