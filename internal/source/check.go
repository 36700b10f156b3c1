package source

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// MaxSize is the largest file that Read accepts, in bytes.
const MaxSize = 1 << 20

// maxNesting is the number of brackets and operators that a file may have. The parser recurses for
// each that nests, with up to 8 KiB of stack, and a Go program cannot recover when its stack is full.
const maxNesting = 2500

// check refuses a file that is not text, or whose text looks different from its meaning.
func check(filename string, src []byte) hcl.Diagnostics {
	if len(src) > MaxSize {
		return sourceError(filename, src, 0, 0, "File too long",
			fmt.Sprintf("A configuration has at most %d bytes, and this file more.", MaxSize))
	}
	// By its byte order mark, or by the zero byte of its first ASCII character.
	if head := string(src[:min(2, len(src))]); head == "\xff\xfe" || head == "\xfe\xff" || strings.Count(head, "\x00") == 1 {
		return sourceError(filename, src, 0, len(head), "File is UTF-16", "Save it as UTF-8.")
	}
	if diags := checkCharacters(filename, src); diags.HasErrors() {
		return diags
	}
	return checkNesting(filename, src)
}

// checkCharacters refuses characters that make a file look different from its meaning on a terminal
// or in an editor: a person who approves a file must see its content.
func checkCharacters(filename string, src []byte) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for i := 0; i < len(src); {
		c := src[i]
		if c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		summary, detail := "", ""
		switch {
		case r == utf8.RuneError && n == 1:
			summary = "Not UTF-8"
			detail = fmt.Sprintf("The byte 0x%02x here is not part of UTF-8 text. Save the file as UTF-8.", c)
		case r == '\r' && i+1 < len(src) && src[i+1] == '\n':
		case r < ' ' || r >= 0x7f && r < 0xa0, misleading(r):
			summary = "Hidden character"
			detail = fmt.Sprintf("The character U+%04X cannot be seen, or changes how the text around it is shown. Remove it, or write it as \\u%04X in a string.", r, r)
		}
		if summary != "" {
			diags = append(diags, sourceError(filename, src, i, i+n, summary, detail)...)
			if len(diags) == 20 {
				return diags // a binary file has thousands
			}
		}
		i += n
	}
	return diags
}

// misleading reports whether a character reorders, joins or hides the text around it: bidirectional
// controls, line separators, zero-width characters.
func misleading(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x061c ||
		r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x2029 || r >= 0x2060 && r <= 0x2064 ||
		r == 0xfeff || r >= 0xe0000 && r <= 0xe007f
}

// nesting are the tokens for which the parser may recurse.
var nesting = []hclsyntax.TokenType{
	hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
	hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl,
	hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
	hclsyntax.TokenPercent, hclsyntax.TokenQuestion, hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan,
	hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
	hclsyntax.TokenAnd, hclsyntax.TokenOr,
}

// without removes the characters of which each of these tokens has at least one.
var without = strings.NewReplacer("(", "", "[", "", "{", "", "<", "", ">", "", "!", "", "-", "", "+", "", "*", "", "/", "", "%", "", "?", "", "=", "", "&", "", "|", "")

// checkNesting refuses text that could exhaust the parser's stack, whether or not its brackets and
// operators nest.
func checkNesting(filename string, src []byte) hcl.Diagnostics {
	if len(src)-len(without.Replace(string(src))) <= maxNesting {
		return nil
	}
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	count := 0
	for i := range tokens {
		tok := &tokens[i]
		if !slices.Contains(nesting, tok.Type) {
			continue
		}
		if count++; count > maxNesting {
			return hcl.Diagnostics{{
				Severity: hcl.DiagError,
				Summary:  "Too many brackets",
				Detail:   fmt.Sprintf("A configuration has at most %d brackets and operators, because all of them may nest.", maxNesting),
				Subject:  tok.Range.Ptr(),
			}}
		}
	}
	return nil
}

func sourceError(filename string, src []byte, start, end int, summary, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{{
		Severity: hcl.DiagError,
		Summary:  summary,
		Detail:   detail,
		Subject:  &hcl.Range{Filename: filename, Start: position(src, start), End: position(src, end)},
	}}
}

// position returns the line and column of a byte; columns count bytes, because earlier bytes may
// not be text.
func position(src []byte, at int) hcl.Pos {
	line := 1 + bytes.Count(src[:at], []byte{'\n'})
	return hcl.Pos{Line: line, Column: at - bytes.LastIndexByte(src[:at], '\n'), Byte: at}
}

// Nearest returns the candidate that name probably means, or "". A short name must match more closely,
// or it would resemble every other.
func Nearest(name string, candidates []string) string {
	best, limit := "", 2
	if len(name) <= 3 {
		limit = 1
	}
	if len(name) > 64 {
		return "" // our names are shorter, and the comparison is quadratic
	}
	for _, c := range candidates {
		if d := levenshtein.Distance(strings.ToLower(name), strings.ToLower(c), nil); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}
