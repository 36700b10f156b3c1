package source

import (
	"bytes"
	"io"
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
	for _, diag := range diags {
		shown := hcl.Diagnostic{Severity: diag.Severity, Summary: printable(diag.Summary), Detail: printable(diag.Detail)}
		files := map[string]*hcl.File{}
		if at := diag.Subject; at != nil {
			subject := *at
			subject.Filename = printable(at.Filename)
			if at.End.Line > at.Start.Line {
				subject.End = at.Start // the first line says enough
			}
			shown.Subject = &subject
			if src, ok := diag.Extra.(*Text); ok && lineAt(src.Bytes, at.Start.Byte) <= maxLine {
				files[subject.Filename] = src.shown()
			}
		}
		if err := hcl.NewDiagnosticTextWriter(w, files, uint(max(width, 0)), color).WriteDiagnostic(&shown); err != nil {
			return err
		}
	}
	return nil
}

// lineAt is the length of the line around a byte.
func lineAt(text []byte, at int) int {
	before, after := text[:min(at, len(text))], text[min(at, len(text)):]
	end := bytes.IndexByte(after, '\n')
	if end < 0 {
		end = len(after)
	}
	return len(before) - bytes.LastIndexByte(before, '\n') - 1 + end
}

// shown is the text for a terminal, with each byte at its place.
func (s *Text) shown() *hcl.File {
	file := &hcl.File{Bytes: []byte(printable(string(s.Bytes)))}
	if s.file != nil {
		file.Nav = s.file.Nav
	}
	return file
}

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
