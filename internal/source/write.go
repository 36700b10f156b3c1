package source

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/mitchellh/go-wordwrap"
)

// Write shows diagnostics to a person: the error, its place, the line and what to do. It wraps text
// to width columns, or not if width is zero or less. It shows control characters by their code, and
// never sends them.
func Write(w io.Writer, diags hcl.Diagnostics, color bool, width int) error {
	out := bufio.NewWriter(w)
	for i, diag := range diags {
		if i > 0 {
			out.WriteByte('\n')
		}
		writeOne(out, diag, color, width)
	}
	return out.Flush()
}

func writeOne(out *bufio.Writer, diag *hcl.Diagnostic, color bool, width int) {
	severity, paint, reset := "Error", "\x1b[1;31m", "\x1b[0m"
	if diag.Severity == hcl.DiagWarning {
		severity, paint = "Warning", "\x1b[1;33m"
	}
	if !color {
		paint, reset = "", ""
	}
	fmt.Fprintf(out, "%s%s%s: %s\n", paint, severity, reset, printable(diag.Summary))
	if at := diag.Subject; at != nil {
		src, _ := diag.Extra.(*Text)
		place := ""
		if src != nil && src.file != nil {
			place = contextOf(src.file, at.Start.Byte)
		}
		fmt.Fprintf(out, "  on %s%s:\n", printable(at.String()), printable(place))
		if src != nil {
			writeSnippet(out, src.Bytes, *at, paint, reset, width)
		}
	}
	text := printable(diag.Detail)
	if width > 2 {
		text = wordwrap.WrapString(text, uint(width-2))
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// contextOf names the block around a place: `, in sandbox "fast"`.
func contextOf(file *hcl.File, at int) string {
	nav, ok := file.Nav.(interface{ ContextString(offset int) string })
	if !ok {
		return ""
	}
	if text := nav.ContextString(at); text != "" {
		return ", in " + text
	}
	return ""
}

// writeSnippet shows the first line of a range, with marks below it.
func writeSnippet(out *bufio.Writer, text []byte, at hcl.Range, paint, reset string, width int) {
	start := at.Start.Byte
	if start < 0 || start > len(text) || len(text) == 0 {
		return
	}
	lineStart := strings.LastIndexByte(string(text[:start]), '\n') + 1
	lineEnd := len(text)
	if i := strings.IndexByte(string(text[start:]), '\n'); i >= 0 {
		lineEnd = start + i
	}
	end := max(start, min(at.End.Byte, lineEnd))

	before := printable(string(text[lineStart:start]))
	marked := printable(string(text[start:end]))
	after := printable(strings.TrimSuffix(string(text[end:lineEnd]), "\r"))
	before, marked, after = fit(before, marked, after, width-8)
	fmt.Fprintf(out, "%4d: %s%s\n", at.Start.Line, before, marked+after)
	marks := max(1, utf8.RuneCountInString(marked))
	fmt.Fprintf(out, "      %s%s%s%s\n", strings.Repeat(" ", utf8.RuneCountInString(before)), paint, strings.Repeat("^", marks), reset)
}

// fit cuts a line to a number of columns around the marked part.
func fit(before, marked, after string, columns int) (string, string, string) {
	if columns < 40 {
		columns = 1000 // no terminal, or a very narrow one
	}
	if utf8.RuneCountInString(before)+utf8.RuneCountInString(marked)+utf8.RuneCountInString(after) <= columns {
		return before, marked, after
	}
	if n := utf8.RuneCountInString(marked); n > columns/2 {
		marked = string([]rune(marked)[:columns/2]) + "…"
		after = ""
	}
	rest := columns - utf8.RuneCountInString(marked)
	if b := []rune(before); len(b) > rest/2 {
		before = "…" + string(b[len(b)-rest/2:])
	}
	rest -= utf8.RuneCountInString(before)
	if a := []rune(after); len(a) > rest {
		after = string(a[:max(rest, 0)]) + "…"
	}
	return before, marked, after
}

// printable replaces characters that a terminal would act on, or that mislead a reader.
func printable(s string) string {
	clean := true
	for _, r := range s {
		if r != ' ' && r != '\n' && !unicode.IsPrint(r) || r == utf8.RuneError {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString("  ")
		case r == '\n' || r != utf8.RuneError && unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}
