package config

import (
	"maps"
	"slices"
)

// AttributeReference is one attribute of the language, for documentation and
// for tools that complete or check what people write.
type AttributeReference struct {
	// Block is the kind of block it stands in: "" for the top level, else
	// "workspace", "approvals", "audit", "engine", "sandbox", "limits", or "bind_paths"
	// for the object that is an element of that list.
	Block string
	Name  string
	// Refused is what this version cannot hold of it: what some or all of its
	// values ask for. Empty means that all are held.
	Refused string
}

// Reference lists every attribute there is, block by block.
func Reference() []AttributeReference {
	var list []AttributeReference
	for _, b := range []struct {
		name   string
		schema *schema
	}{
		{"", &fileSchema}, {"workspace", &workspaceSchema}, {"approvals", &approvalsSchema}, {"audit", &auditSchema}, {"engine", &engineSchema},
		{"sandbox", &sandboxSchema}, {"limits", &limitsSchema}, {"bind_paths", &bindSchema},
	} {
		for _, name := range b.schema.attrs {
			a := AttributeReference{Block: b.name, Name: name}
			for i := range unbuilt {
				if unbuilt[i].path == b.name+"."+name {
					a.Refused = unbuilt[i].what
				}
			}
			list = append(list, a)
		}
	}
	return list
}

// FunctionNames lists the functions that expressions can call, sorted.
func FunctionNames() []string { return slices.Sorted(maps.Keys(functions())) }

// Nearest gives the candidate that name is most likely a misspelling of, or "".
func Nearest(name string, candidates []string) string { return nearest(name, candidates) }
