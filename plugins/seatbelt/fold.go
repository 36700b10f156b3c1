package seatbelt

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The file systems of macOS find a name also in another case and another spelling of Unicode, so
// one name has many. A rule that denies must match all of them; for what it cannot express, it
// matches more.

// anchor begins every expression: a path, by either of its names.
const anchor = `^(` + dataVolume + `)?`

// spellings is the regular expression for every spelling of a path, and with tail for all beneath
// it.
func spellings(path string, tail bool) string {
	expr := anchor
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		expr += "/" + foldLiteral(name)
	}
	if tail {
		expr += "(/.*)?"
	}
	return expr + "$"
}

// anyOne replaces a character that must not be in a regular expression: it could end the literal,
// or parsers disagree about it.
const anyOne = "[^/]"

// nonASCII is any text beyond ASCII. A profile is ASCII: how the kernel reads a character of
// several bytes in an expression is not documented.
const nonASCII = "[^ -~]+"

// ligatures are the letters that one character beyond ASCII can fold to: ﬃ to "ffi", ß to "ss".
var ligatures = [...]string{"ffi", "ffl", "ff", "fi", "fl", "st", "ss"}

// foldLiteral is a regular expression, without anchors, for every spelling of a path's text.
func foldLiteral(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if run := otherRun(text[i:]); run > 0 {
			b.WriteString("[^/]*")
			i += run
			continue
		}
		if run := ligatureRun(text[i:]); run > 0 {
			b.WriteString(foldRun(text[i : i+run]))
			i += run
			continue
		}
		b.WriteString(foldByte(text[i]))
		i++
	}
	return b.String()
}

// otherRun is the length of the start of s that has too many spellings: characters beyond ASCII,
// and the letter before a combining one.
func otherRun(s string) int {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r < utf8.RuneSelf {
			next, _ := utf8.DecodeRuneInString(s[n+size:])
			if r == '/' || !unicode.Is(unicode.Mn, next) {
				break
			}
		}
		n += size
	}
	return n
}

// ligatureRun is the length of the letters at the start of s that overlapping ligatures can
// replace.
func ligatureRun(s string) int {
	end := 0
	for at := 0; at == 0 || at < end; at++ {
		for _, l := range ligatures {
			if len(s)-at >= len(l) && strings.EqualFold(s[at:at+len(l)], l) {
				end = max(end, at+len(l))
			}
		}
	}
	// otherRun handles the letter before a combining character.
	if end > 0 && otherRun(s[end-1:]) > 1 {
		return 0
	}
	return end
}

// foldRun is for such letters: unchanged, or some of them with a ligature for the others.
func foldRun(run string) string {
	whole, letters := "", "["+strings.ToLower(run)+strings.ToUpper(run)+"]"
	for i := range len(run) {
		whole += foldByte(run[i])
	}
	return "(" + whole + "|" + letters + "*" + nonASCII + "(" + letters + "|" + nonASCII + ")*)"
}

// foldByte is the expression for one ASCII character.
func foldByte(c byte) string {
	switch lower := c | 0x20; { // of a letter
	case lower == 'k':
		return "([kK]|" + nonASCII + ")" // the Kelvin sign, U+212A
	case lower == 's':
		return "([sS]|" + nonASCII + ")" // the long s, U+017F
	case 'a' <= lower && lower <= 'z':
		return "[" + string(lower) + string(lower-32) + "]"
	case strings.IndexByte(".+*?(){}$|", c) >= 0:
		return "[" + string(c) + "]"
	case '0' <= c && c <= '9', strings.IndexByte("/-_ !#%&',:;<=>@~`", c) >= 0:
		return string(c)
	}
	return anyOne // quotes, brackets, backslash, caret, controls
}
