package config

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// AttributeReference is one attribute of the language, for documentation and for editors.
type AttributeReference struct {
	// Block is the kind of its block: "" for the top level, else "workspace", "approvals", "audit",
	// "mcp", "credential", "engine", "sandbox", "limits", or "bind_paths" for an object in that
	// list.
	Block string
	Name  string
}

// Reference lists all attributes, block by block.
func Reference() []AttributeReference {
	var list []AttributeReference
	for _, b := range []struct {
		name   string
		schema *hcl.BodySchema
	}{
		{"", &fileSchema}, {"workspace", &workspaceSchema.schema}, {"approvals", &approvalsSchema.schema}, {"audit", &auditSchema.schema}, {"mcp", &mcpSchema.schema},
		{"credential", &credentialSchema.schema}, {"engine", &engineSchema.schema}, {"sandbox", &sandboxSchema.schema}, {"session", &sessionSchema.schema}, {"limits", &limitsSchema.schema}, {"bind_paths", &bindSchema.schema},
	} {
		for _, a := range b.schema.Attributes {
			list = append(list, AttributeReference{Block: b.name, Name: a.Name})
		}
	}
	return list
}

// FunctionNames lists the functions of expressions, sorted.
func FunctionNames() []string { return slices.Sorted(maps.Keys(functions())) }
