package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// schema lists the contents of one kind of block.
type schema struct {
	place  string // "a sandbox block"
	engine string // the engine whose options these are; empty for the language's own
	attrs  []string
	blocks []blockType
}

type blockType struct {
	name    string
	labeled bool
	many    bool
}

// engineOption returns the engine with an option that people often write outside of its config
// block.
func engineOption(name string) (engine string) {
	switch name {
	case "image", "pull", "platform", "user", "cap_add", "writable_root":
		return "docker"
	}
	return ""
}

// names are the attributes and blocks of s.
func (s *schema) names() []string {
	names := slices.Clone(s.attrs)
	for _, b := range s.blocks {
		names = append(names, b.name)
	}
	return names
}

func (s *schema) block(name string) (blockType, bool) {
	for _, b := range s.blocks {
		if b.name == name {
			return b, true
		}
	}
	return blockType{}, false
}

func (s *schema) hcl() *hcl.BodySchema {
	out := &hcl.BodySchema{
		Attributes: make([]hcl.AttributeSchema, 0, len(s.attrs)),
		Blocks:     make([]hcl.BlockHeaderSchema, 0, len(s.blocks)),
	}
	for _, name := range s.attrs {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: name})
	}
	for _, b := range s.blocks {
		header := hcl.BlockHeaderSchema{Type: b.name}
		if b.labeled {
			header.LabelNames = []string{"name"}
		}
		out.Blocks = append(out.Blocks, header)
	}
	return out
}

// content returns the content of body by s, and reports everything else.
func (d *decoder) content(body hcl.Body, s *schema) *hcl.BodyContent {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		content, diags := body.Content(s.hcl())
		d.add(diags)
		return d.uniqueBlocks(content, s)
	}
	for name, attr := range native.Attributes {
		if !slices.Contains(s.attrs, name) {
			d.report(attr.NameRange, "Unknown attribute", s.unknownAttribute(d, name))
		}
	}
	var known hclsyntax.Blocks
	for _, block := range native.Blocks {
		kind, ok := s.block(block.Type)
		switch {
		case !ok:
			d.report(block.DefRange(), "Unknown block", s.unknownBlock(d, block.Type))
		case kind.labeled && len(block.Labels) != 1:
			d.report(block.DefRange(), "One name needed",
				fmt.Sprintf("The block has one name: write %s \"NAME\" { ... }.", block.Type))
		case !kind.labeled && len(block.Labels) > 0:
			d.report(block.LabelRanges[0], "No name needed",
				fmt.Sprintf("The block has no name: write %s { ... }.", block.Type))
		default:
			known = append(known, block)
		}
	}
	native = &hclsyntax.Body{Attributes: native.Attributes, Blocks: known, SrcRange: native.SrcRange, EndRange: native.EndRange}
	content, _, diags := native.PartialContent(s.hcl())
	d.add(diags)
	return d.uniqueBlocks(content, s)
}

// uniqueBlocks keeps the first of blocks that may appear once, and reports the others.
func (d *decoder) uniqueBlocks(content *hcl.BodyContent, s *schema) *hcl.BodyContent {
	first := make(map[string]hcl.Range)
	kept := content.Blocks[:0:0]
	for _, block := range content.Blocks {
		kind, _ := s.block(block.Type)
		if at, dup := first[block.Type]; dup && !kind.many {
			d.report(block.DefRange, "Duplicate block",
				fmt.Sprintf("There can be one %s block here, and the first is at %s.", block.Type, at))
			continue
		}
		first[block.Type] = block.DefRange
		kept = append(kept, block)
	}
	content.Blocks = kept
	return content
}

func (s *schema) unknownAttribute(d *decoder, name string) string {
	if _, ok := s.block(name); ok {
		return fmt.Sprintf("%s is a block: write %s { ... }, without the equals sign.", name, name)
	}
	return fmt.Sprintf("%s has no attribute %q.", upperFirst(s.place), name) + s.belongs(d, name)
}

func (s *schema) unknownBlock(d *decoder, name string) string {
	if slices.Contains(s.attrs, name) {
		return fmt.Sprintf("%s is an attribute: write %s = ..., with an equals sign.", name, name)
	}
	return fmt.Sprintf("%s has no block %q.", upperFirst(s.place), name) + s.belongs(d, name)
}

// belongs says where a name that s lacks may belong.
func (s *schema) belongs(d *decoder, name string) string {
	places := []*schema{&sandboxSchema.schema, &sessionSchema.schema, &limitsSchema.schema}
	if !d.embedded {
		places = append(places, &workspaceSchema.schema, &approvalsSchema.schema, &auditSchema.schema, &mcpSchema.schema, &credentialSchema.schema, &fileSchema)
	}
	for _, other := range places {
		if other != s && slices.Contains(other.names(), name) {
			return fmt.Sprintf(" It belongs in %s.", other.place)
		}
	}
	if engine := engineOption(name); engine != s.engine && slices.Contains(d.knownEngines(), engine) {
		return fmt.Sprintf(" %s belongs to engine %s: it goes into the config block of a sandbox with that engine.", name, engine)
	}
	if near := nearest(name, s.names()); near != "" {
		return fmt.Sprintf(" Did you mean %q?", near)
	}
	return fmt.Sprintf(" It takes %s.", list(s.names(), "and"))
}
