package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

type attributeJSON struct {
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Doc      string          `json:"doc"`
	Required bool            `json:"required"`
	Default  json.RawMessage `json:"default,omitempty"`
}

type blockOfSchema struct {
	Doc        string          `json:"doc"`
	Attributes []attributeJSON `json:"attributes"`
}

func newEngineSchema(name string, info shared.Info) engineSchema {
	s := engineSchema{
		Name: name, Version: info.Version, Doc: info.Doc, Features: info.Features,
		Attributes: attributesJSON(info.Options.Attributes), Blocks: map[string]blockOfSchema{},
	}
	if s.Features == nil {
		s.Features = shared.Features{}
	}
	for _, b := range info.Options.Blocks {
		s.Blocks[b.Name] = blockOfSchema{b.Doc, attributesJSON(b.Attributes)}
	}
	return s
}

func attributesJSON(attrs []shared.OptionAttribute) []attributeJSON {
	out := make([]attributeJSON, 0, len(attrs))
	for _, a := range attrs {
		out = append(out, attributeJSON{a.Name, string(a.Type), a.Doc, a.Required, a.Default})
	}
	return out
}

// text shows a schema the way a config block is written.
func (s *engineSchema) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s: %s\n", printable(s.Name), printable(s.Version), printable(s.Doc))
	features := make([]string, len(s.Features))
	for i, f := range s.Features {
		features[i] = string(f)
	}
	slices.Sort(features)
	fmt.Fprintf(b, "  features: %s\n", printable(strings.Join(features, ", ")))
	if len(s.Attributes) == 0 && len(s.Blocks) == 0 {
		b.WriteString("  options: none\n")
		return
	}
	b.WriteString("  options:\n")
	attributeTable(b, "    ", s.Attributes)
	for _, name := range sortedKeys(s.Blocks) {
		block := s.Blocks[name]
		fmt.Fprintf(b, "    %s { ... }  %s\n", printable(name), printable(block.Doc))
		attributeTable(b, "      ", block.Attributes)
	}
}

func attributeTable(b *strings.Builder, indent string, attrs []attributeJSON) {
	var rows [][]string
	for _, a := range attrs {
		doc := a.Doc
		switch {
		case a.Required:
			doc += " (required)"
		case len(a.Default) > 0:
			doc += " (default " + string(a.Default) + ")"
		}
		rows = append(rows, []string{printable(a.Name), printable(a.Type), printable(doc)})
	}
	table(b, indent, rows)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
