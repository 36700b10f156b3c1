package config

import (
	"fmt"
	"strconv"
)

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
	{name: "sandboxes",
		read:  func(d *decoder, it item, to *MCP) { to.Sandboxes = d.sandboxNames(it) },
		shown: func(of *MCP) string { return orElse(of.Sandboxes, "the default one") }},
	{name: "directories",
		read: func(d *decoder, it item, to *MCP) {
			before := len(d.diags)
			if to.Directories = d.hostPaths(it); len(to.Directories) == 0 && len(d.diags) == before {
				d.invalid(it, "must name a directory, or be left out")
			}
		},
		shown: func(of *MCP) string { return orElse(of.Directories, "the workspace") }},
	{name: "apply",
		read:  func(d *decoder, it item, to *MCP) { to.Apply, _ = d.bool(it) },
		shown: func(of *MCP) string { return strconv.FormatBool(of.Apply) }},
})

func orElse(list []string, without string) string {
	if len(list) == 0 {
		return without
	}
	return listOf(list)
}

// sandboxNames are names of the file's sandboxes that isolate.
func (d *decoder) sandboxNames(it item) []string {
	before := len(d.diags)
	names := d.good(it, func(e item) (string, bool) {
		name, ok := d.sandboxName(d.defined, e)
		if ok && d.defined.options.Sandboxes[name].Engine == "noop" {
			d.report(e.at, "Sandbox without isolation", fmt.Sprintf("Sandbox %q has the engine noop, which does not isolate: no agent runs commands with it.", name))
			return "", false
		}
		return name, ok
	})
	if len(names) == 0 && len(d.diags) == before {
		d.invalid(it, "must name a sandbox, or be left out")
	}
	return names
}
