package config

import "github.com/hashicorp/hcl/v2"

// Reference yields all attributes of the language, for documentation and for editors. The kind of a
// block is "" for the top level, else "workspace", "approvals", "audit", "mcp", "credential",
// "engine", "sandbox", "session", "limits", or "bind_paths" for an object in that list.
func Reference(yield func(block, name string) bool) {
	for _, b := range []struct {
		name   string
		schema *hcl.BodySchema
	}{
		{"", &fileSchema}, {"workspace", &workspaceSchema.schema}, {"approvals", &approvalsSchema.schema}, {"audit", &auditSchema.schema}, {"mcp", &mcpSchema.schema},
		{"credential", &credentialSchema.schema}, {"engine", &engineSchema.schema}, {"sandbox", &sandboxSchema.schema}, {"session", &sessionSchema.schema}, {"limits", &limitsSchema.schema}, {"bind_paths", &bindSchema.schema},
	} {
		for _, a := range b.schema.Attributes {
			if !yield(b.name, a.Name) {
				return
			}
		}
	}
}
