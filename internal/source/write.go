package source

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// maxLine is the longest line that Write shows, in bytes.
const maxLine = 1000

// Write shows diagnostics to a person: the error, its place, the line and what to do. It wraps text
// to width columns, or not if width is zero or less. It shows a mark in place of a control character
// or a misleading one, and never sends them.
func Write(w io.Writer, diags hcl.Diagnostics, color bool, width int) error {
	var all strings.Builder
	for _, diag := range diags {
		shown := hcl.Diagnostic{Severity: diag.Severity, Summary: printable(diag.Summary), Detail: printable(diag.Detail)}
		files, line := map[string]*hcl.File{}, 1
		if at := diag.Subject; at != nil {
			subject := *at
			subject.Filename = strings.NewReplacer("\r", "?", "\n", "?").Replace(printable(at.Filename)) // it would forge lines
			if at.End.Line > at.Start.Line {
				subject.End = at.Start // the first line says enough
			}
			if src, ok := diag.Extra.(*Text); ok {
				files[subject.Filename] = src.lineOf(&subject)
			}
			shown.Subject, line = &subject, at.Start.Line
		}
		var one strings.Builder // which returns no error
		_ = hcl.NewDiagnosticTextWriter(&one, files, uint(max(width, 0)), color).WriteDiagnostic(&shown)
		all.WriteString(strings.Replace(one.String(), ":\n   1: ", fmt.Sprintf(":\n%4d: ", line), 1))
	}
	_, err := io.WriteString(w, all.String())
	return err
}

// lineOf is the line of a place, for a terminal, with each byte at its place; nil if it is too long.
// The place is in the line then: the writer would walk through the whole text for each diagnostic.
func (s *Text) lineOf(at *hcl.Range) *hcl.File {
	begin := bytes.LastIndexByte(s.Bytes[:min(at.Start.Byte, len(s.Bytes))], '\n') + 1
	line := bytes.SplitAfterN(s.Bytes[begin:], []byte("\n"), 2)[0]
	if len(line) > maxLine {
		return nil
	}
	file := &hcl.File{Bytes: []byte(printable(string(line)))}
	if s.file != nil {
		file.Nav = block(s.file.Nav.(interface{ ContextString(int) string }).ContextString(at.Start.Byte))
	}
	at.Start.Byte -= begin
	at.End.Byte -= begin
	return file
}

// block names the block around a place, for the writer.
type block string

func (b block) ContextString(int) string { return string(b) }

// printable puts question marks, as many as bytes, in place of characters that a terminal would act
// on, or that mislead a reader.
func printable(s string) string {
	out := []byte(s)
	for rest := out; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		space := r == '\n' || r == '\t' || bytes.HasPrefix(rest, []byte("\r\n"))
		if !space && !unicode.IsPrint(r) || r == utf8.RuneError {
			copy(rest, bytes.Repeat([]byte{'?'}, n))
		}
		rest = rest[n:]
	}
	return string(out)
}
