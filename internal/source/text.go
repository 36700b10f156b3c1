// Package source reads the text of configurations, before its meaning is known: whether it may be
// parsed, its format, and how to show errors in it.
//
// It refuses a hostile text before the parser sees it: a text that is too long or has too
// many brackets, that is not text, or whose characters make it look different from its meaning. No part of
// a text reaches a terminal as a control sequence.
package source

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Read returns the text of a file, for Parse.
func Read(path string) ([]byte, error) { return hostpath.ReadFile(path, MaxSize) }

// A Text is a configuration's text, and the source of a diagnostic's snippet. Diagnostic.Extra
// contains it.
type Text struct {
	Name  string
	Bytes []byte
	file  *hcl.File // nil if the text did not parse
}

// parsed are texts without any diagnostic, by name: a server reads the same ones repeatedly.
var parsed struct {
	sync.Mutex
	texts map[string]*Text
}

// maxParsed is how many of these to keep.
const maxParsed = 16

// Parse parses the text of the file of that name, if check permits. Its diagnostics are finished.
func Parse(name string, src []byte) (*Text, hcl.Diagnostics) {
	parsed.Lock()
	s := parsed.texts[name]
	parsed.Unlock()
	if s != nil && bytes.Equal(s.Bytes, src) {
		return s, nil
	}
	s, diags := parse(name, bytes.Clone(src)) // the caller may write to src
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

// Body returns the parsed body.
func (s *Text) Body() *hclsyntax.Body { return s.file.Body.(*hclsyntax.Body) }

// Finish prepares diagnostics for output: in the order of the file, each once, with its source, and
// without the expression and its context. A writer of diagnostics would otherwise print the values
// of the context's variables.
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
