package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// labeled is a kind of block with a name, which can appear several times. Other kinds appear once.
func labeled(kind string) hcl.BlockHeaderSchema {
	return hcl.BlockHeaderSchema{Type: kind, LabelNames: []string{"name"}}
}

// namesOf are the attributes and blocks of s.
func namesOf(s *hcl.BodySchema) (names []string) {
	for _, a := range s.Attributes {
		names = append(names, a.Name)
	}
	for _, b := range s.Blocks {
		names = append(names, b.Type)
	}
	return names
}

// content returns the content of body by s, and reports everything else.
func (d *decoder) content(body hcl.Body, s *hcl.BodySchema) *hcl.BodyContent {
	content, diags := body.Content(s)
	for _, diag := range diags {
		if strings.HasPrefix(diag.Summary, "Unsupported ") && !strings.Contains(diag.Detail, "Did you mean") {
			diag.Detail += " Expected: " + list(namesOf(s)) + "."
		}
	}
	d.add(diags)
	first := make(map[string]hcl.Range)
	content.Blocks = slices.DeleteFunc(content.Blocks, func(block *hcl.Block) bool {
		at, dup := first[block.Type]
		if !dup || len(block.Labels) > 0 {
			first[block.Type] = block.DefRange
			return false
		}
		d.report(block.DefRange, "Duplicate block",
			fmt.Sprintf("There can be one %s block here, and the first is at %s.", block.Type, at))
		return true
	})
	return content
}
