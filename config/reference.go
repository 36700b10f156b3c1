package config

import (
	"maps"
	"slices"
)

// AttributeReference is one attribute of the language, for documentation and
// for tools that complete or check what people write.
type AttributeReference struct {
	// Block is the kind of block it stands in: "" for the top level, else
	// "workspace", "approvals", "audit", "mcp", "credential", "engine", "sandbox", "limits", or "bind_paths"
	// for the object that is an element of that list.
	Block string
	Name  string
}

// Reference lists every attribute there is, block by block.
func Reference() []AttributeReference {
	var list []AttributeReference
	for _, b := range []struct {
		name   string
		schema *schema
	}{
		{"", &fileSchema}, {"workspace", &workspaceSchema.schema}, {"approvals", &approvalsSchema.schema}, {"audit", &auditSchema.schema}, {"mcp", &mcpSchema.schema},
		{"credential", &credentialSchema.schema}, {"engine", &engineSchema.schema}, {"sandbox", &sandboxSchema.schema}, {"session", &sessionSchema.schema}, {"limits", &limitsSchema.schema}, {"bind_paths", &bindSchema.schema},
	} {
		for _, name := range b.schema.attrs {
			list = append(list, AttributeReference{Block: b.name, Name: name})
		}
	}
	return list
}

// FunctionNames lists the functions that expressions can call, sorted.
func FunctionNames() []string { return slices.Sorted(maps.Keys(functions())) }

// Nearest gives the candidate that name is most likely a misspelling of, or "".
func Nearest(name string, candidates []string) string { return nearest(name, candidates) }
