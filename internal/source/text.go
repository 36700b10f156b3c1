// Package source reads the text of configurations, before anything is known of what it says:
// what of it may be parsed at all, how it is laid out, and how mistakes in it are shown.
//
// A text that is hostile in form is refused before it is parsed: too long, nested too deeply,
// no text, or with characters that make it read differently from what it means. Nothing of a
// text reaches a terminal as a control sequence.
package source

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Read gives the text of a file, for Parse. It refuses what is not a regular
// file, which could block or never end.
func Read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return io.ReadAll(io.LimitReader(file, MaxSize+1))
}

// A Text is one, and what a diagnostic's snippet is taken from. It travels in
// Diagnostic.Extra.
type Text struct {
	Name  string
	Bytes []byte
	file  *hcl.File // nil when the text did not parse
}

// parsed are texts without any diagnostic, by name: a server is asked for the same ones again and again.
var parsed struct {
	sync.Mutex
	texts map[string]*Text
}

// maxParsed bounds these.
const maxParsed = 16

// Parse parses the text of the file of that name, if that may be done. The diagnostics are
// finished.
func Parse(name string, src []byte) (*Text, hcl.Diagnostics) {
	parsed.Lock()
	s := parsed.texts[name]
	parsed.Unlock()
	if s != nil && bytes.Equal(s.Bytes, src) {
		return s, nil
	}
	s, diags := parse(name, bytes.Clone(src)) // which the caller may write to
	if len(diags) == 0 {
		parsed.Lock()
		if parsed.texts == nil || len(parsed.texts) >= maxParsed {
			parsed.texts = map[string]*Text{}
		}
		parsed.texts[name] = s
		parsed.Unlock()
	}
	return s, diags
}

func parse(name string, src []byte) (*Text, hcl.Diagnostics) {
	s := &Text{Name: name, Bytes: src}
	diags := check(name, src)
	if !diags.HasErrors() {
		var file *hcl.File
		if file, diags = hclsyntax.ParseConfig(src, name, hcl.InitialPos); !diags.HasErrors() {
			s.file = file
		}
	}
	return s, s.Finish(diags)
}

// Body is what was parsed.
func (s *Text) Body() *hclsyntax.Body { return s.file.Body.(*hclsyntax.Body) }

// Finish makes diagnostics fit to be shown: in the order of the file, each
// once, with its source, and without the expression and its context, whose
// variables a writer of diagnostics would print with their values.
func (s *Text) Finish(diags hcl.Diagnostics) hcl.Diagnostics {
	seen := make(map[string]bool, len(diags))
	kept := diags[:0:0]
	for _, diag := range diags {
		diag.Expression, diag.EvalContext, diag.Extra = nil, nil, s
		if diag.Subject == nil {
			diag.Subject = &hcl.Range{Filename: s.Name, Start: hcl.InitialPos, End: hcl.InitialPos}
		}
		if key := diag.Error(); !seen[key] {
			seen[key] = true
			kept = append(kept, diag)
		}
	}
	slices.SortStableFunc(kept, func(a, b *hcl.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte), cmp.Compare(a.Summary, b.Summary),
			cmp.Compare(a.Detail, b.Detail))
	})
	return kept
}
