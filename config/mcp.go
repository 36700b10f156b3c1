package config

import "fmt"

// MCP is what a file permits agents that run commands by the Model Context Protocol.
type MCP struct {
	// Sandboxes are the sandboxes that they may use. The first is their default, if the file has no
	// default among them. Empty means only the default one.
	Sandboxes []string
	// Directories are the absolute workspaces that their commands may work on. Empty means the
	// directory that the server was started in.
	Directories []string
	// Apply permits them to apply reviews.
	Apply bool
}

// MCP is the file's mcp block; the zero value without one.
func (f *File) MCP() MCP { return f.mcp }

var mcpSchema = newBlock("mcp.", []attribute[MCP]{
	aListOrNone("sandboxes", func(x *MCP) *[]string { return &x.Sandboxes }, (*decoder).isolatingSandbox, "sandbox", "the default one"),
	aListOrNone("directories", func(x *MCP) *[]string { return &x.Directories }, (*decoder).hostPath, "directory", "the workspace"),
	aBool("apply", func(x *MCP) *bool { return &x.Apply }),
})

// aListOrNone is a list of things of a kind that may not be empty; a missing one shows the text without.
func aListOrNone(name string, at func(*MCP) *[]string, read func(*decoder, item) (string, bool), kind, without string) attribute[MCP] {
	return a(name, at, func(d *decoder, it item) []string {
		before := len(d.diags)
		list := d.good(it, func(e item) (string, bool) { return read(d, e) })
		if len(list) == 0 && len(d.diags) == before {
			d.invalid(it, "must name a %s, or be left out", kind)
		}
		return list
	}, func(list []string) string {
		if len(list) == 0 {
			return without
		}
		return listOf(list)
	})
}

// isolatingSandbox is the name of a sandbox of the file that isolates.
func (d *decoder) isolatingSandbox(it item) (string, bool) {
	name, ok := d.sandboxName(d.defined, it)
	if ok && d.defined.options.Sandboxes[name].Engine == "noop" {
		d.report(it.at, "Sandbox without isolation", fmt.Sprintf("Sandbox %q has the engine noop, which does not isolate: no agent runs commands with it.", name))
		ok = false
	}
	return name, ok
}
