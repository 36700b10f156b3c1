package source

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Format lays src out in the usual style of HCL: two spaces for each level,
// aligned equals signs and comments, one space between tokens. It changes
// white space alone. A file that is not HCL is returned as it is, with errors.
//
// It is not hclwrite.Format, whose package costs every start of the program a
// third of a millisecond. The two agree, but that what is inside of strings is
// left alone here.
func Format(filename string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := Parse(filename, src); diags.HasErrors() {
		return src, diags
	}
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	lines := splitLines(src, tokens)
	alignColumn(lines, func(l *line) *string { return &l.value })
	alignColumn(lines, func(l *line) *string { return &l.comment })

	var out bytes.Buffer
	for i := range lines {
		out.WriteString(strings.TrimRight(lines[i].lead+lines[i].value+lines[i].comment, " \t"))
		out.WriteString(lines[i].end)
	}
	formatted := out.Bytes()
	if len(formatted) > 0 && formatted[len(formatted)-1] != '\n' {
		formatted = append(formatted, '\n')
	}
	if !sameTokens(tokens, formatted, filename) {
		// What is laid out by rules has been misread; leave it alone.
		return src, nil
	}
	return formatted, nil
}

// line is one line of output, in up to three columns. What spans several lines
// by itself, such as a heredoc, is a part of one.
type line struct {
	lead    string // indentation, and all up to the equals sign of an attribute
	value   string // from the equals sign on
	comment string // after something else
	end     string // "\n", or empty where a token has it
	multi   bool   // opens or closes brackets of other lines
}

// splitLines lays out each line by itself.
func splitLines(src []byte, tokens hclsyntax.Tokens) []line {
	var lines []line
	var levels indentation
	for len(tokens) > 0 && tokens[0].Type != hclsyntax.TokenEOF {
		n := slices.IndexFunc(tokens, endsLine) + 1
		if n == 0 {
			n = len(tokens)
		}
		lines = append(lines, layOut(src, tokens[:n], &levels))
		tokens = tokens[n:]
	}
	return lines
}

func endsLine(t hclsyntax.Token) bool {
	return t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenEOF ||
		t.Type == hclsyntax.TokenComment && bytes.HasSuffix(t.Bytes, []byte("\n"))
}

// indentation holds, for each level, how many brackets opened it: all that one
// line opens is one level.
type indentation []int

// shift takes the brackets that a line leaves open, or closes when negative,
// and gives the level of the line itself.
func (in *indentation) shift(net int) int {
	level := len(*in)
	if net > 0 {
		*in = append(*in, net)
		return level
	}
	for net < 0 && len(*in) > 0 {
		top := &(*in)[len(*in)-1]
		closed := min(*top, -net)
		*top -= closed
		net += closed
		if *top == 0 {
			*in = (*in)[:len(*in)-1]
		}
	}
	return len(*in)
}

func layOut(src []byte, tokens hclsyntax.Tokens, levels *indentation) line {
	var l line
	if last := tokens[len(tokens)-1]; last.Type == hclsyntax.TokenNewline || last.Type == hclsyntax.TokenEOF {
		if last.Type == hclsyntax.TokenNewline {
			l.end = "\n"
		}
		tokens = tokens[:len(tokens)-1]
	}
	if len(tokens) == 0 {
		return l
	}

	net := depth(tokens)
	l.multi = net != 0
	l.lead = strings.Repeat("  ", levels.shift(net))

	column := &l.lead
	template := 0 // inside of a template, white space is content
	bracket := 0
	for i, t := range tokens {
		if i > 0 {
			gap := src[tokens[i-1].Range.End.Byte:t.Range.Start.Byte]
			switch {
			case template > 0:
				*column += string(gap)
			case t.Type == hclsyntax.TokenComment:
				column = &l.comment
				*column += " "
			case space(tokens, i, len(gap) > 0):
				if t.Type == hclsyntax.TokenEqual && column == &l.lead && !l.multi && bracket == 0 {
					column = &l.value
				}
				*column += " "
			}
		}
		text := string(t.Bytes)
		switch t.Type {
		case hclsyntax.TokenComment:
			if strings.HasSuffix(text, "\n") {
				l.end = "\n"
			}
			text = strings.TrimRight(text, " \t\r\n")
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			template++
		case hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			template--
		}
		*column += text
		bracket += depth(tokens[i : i+1])
	}
	return l
}

// depth is how many more brackets tokens open than close.
func depth(tokens hclsyntax.Tokens) (net int) {
	for _, t := range tokens {
		if opens(t.Type) {
			net++
		} else if closes(t.Type) {
			net--
		}
	}
	return net
}

func opens(t hclsyntax.TokenType) bool {
	return t == hclsyntax.TokenOBrace || t == hclsyntax.TokenOBrack || t == hclsyntax.TokenOParen ||
		t == hclsyntax.TokenTemplateInterp || t == hclsyntax.TokenTemplateControl
}

func closes(t hclsyntax.TokenType) bool {
	return t == hclsyntax.TokenCBrace || t == hclsyntax.TokenCBrack || t == hclsyntax.TokenCParen ||
		t == hclsyntax.TokenTemplateSeqEnd
}

// space says whether there is a space before tokens[i]. Where the style leaves
// a choice, what is written decides.
func space(tokens hclsyntax.Tokens, i int, written bool) bool {
	before, after := tokens[i-1].Type, tokens[i].Type
	switch {
	case after == hclsyntax.TokenComma, after == hclsyntax.TokenDot, before == hclsyntax.TokenDot,
		before == hclsyntax.TokenBang, before == hclsyntax.TokenOParen, after == hclsyntax.TokenCParen,
		before == hclsyntax.TokenOBrack, after == hclsyntax.TokenCBrack, after == hclsyntax.TokenEllipsis:
		return false
	case before == hclsyntax.TokenOBrace && after == hclsyntax.TokenCBrace:
		return false
	case before == hclsyntax.TokenComma, before == hclsyntax.TokenComment,
		before == hclsyntax.TokenEqual, after == hclsyntax.TokenEqual,
		before == hclsyntax.TokenFatArrow, after == hclsyntax.TokenFatArrow,
		before == hclsyntax.TokenQuestion, after == hclsyntax.TokenQuestion,
		before == hclsyntax.TokenOBrace, after == hclsyntax.TokenCBrace, after == hclsyntax.TokenOBrace:
		return true
	case before == hclsyntax.TokenMinus && !(i >= 2 && operand(tokens[i-2].Type)):
		return false // a sign
	case binary(before), binary(after), before == hclsyntax.TokenMinus,
		after == hclsyntax.TokenMinus && operand(before):
		return true
	case before == hclsyntax.TokenIdent && after == hclsyntax.TokenOParen,
		before == hclsyntax.TokenIdent && after == hclsyntax.TokenOBrack:
		return written && i >= 2 && tokens[i-2].Type != hclsyntax.TokenEqual
	}
	return written
}

func binary(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
		hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr,
		hclsyntax.TokenColon:
		return true
	}
	return false
}

// operand says whether a minus after such a token subtracts.
func operand(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenCQuote, hclsyntax.TokenCParen,
		hclsyntax.TokenCBrack, hclsyntax.TokenCBrace:
		return true
	}
	return false
}

// alignColumn makes a column begin at the same place in each run of adjacent
// lines that have it.
func alignColumn(lines []line, column func(*line) *string) {
	for start := 0; start < len(lines); {
		end, widest := start, 0
		for end < len(lines) && *column(&lines[end]) != "" {
			widest = max(widest, widthBefore(&lines[end], column))
			end++
		}
		for i := start; i < end; i++ {
			cell := column(&lines[i])
			if pad := widest - widthBefore(&lines[i], column); widest > 0 {
				*cell = strings.Repeat(" ", pad) + *cell
			}
		}
		start = max(end, start+1)
	}
}

// widthBefore is how many columns stand before a column of a line; zero when
// the line begins with it.
func widthBefore(l *line, column func(*line) *string) int {
	text := l.lead
	if column(l) == &l.comment {
		text += l.value
	}
	return utf8.RuneCountInString(text)
}

// sameTokens says whether formatted differs from the tokens in white space
// alone.
func sameTokens(tokens hclsyntax.Tokens, formatted []byte, filename string) bool {
	again, _ := hclsyntax.LexConfig(formatted, filename, hcl.InitialPos)
	return slices.EqualFunc(significant(tokens), significant(again), func(a, b hclsyntax.Token) bool {
		return a.Type == b.Type && bytes.Equal(bytes.TrimRight(a.Bytes, " \t\r\n"), bytes.TrimRight(b.Bytes, " \t\r\n"))
	})
}

// significant leaves out the newline that formatting adds at the end.
func significant(tokens hclsyntax.Tokens) hclsyntax.Tokens {
	for n := len(tokens); n > 0; n-- {
		if t := tokens[n-1].Type; t != hclsyntax.TokenEOF && t != hclsyntax.TokenNewline {
			return tokens[:n]
		}
	}
	return nil
}
