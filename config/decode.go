package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// file decodes a whole file into f.
func (d *decoder) file(f *File, body *hclsyntax.Body) {
	content := d.content(body, &fileSchema)
	d.blocks = map[string]hcl.Range{}
	var sandboxes, engines, credentials hcl.Blocks
	var workspace, mcp *hcl.Block
	for _, block := range content.Blocks {
		switch block.Type {
		case "workspace":
			workspace = block
		case "approvals":
			approvalsSchema.read(d, block.Body, block.DefRange, &f.options)
		case "audit":
			auditSchema.read(d, block.Body, block.DefRange, &f.options)
		case "mcp":
			mcp = block
		case "engine":
			engines = append(engines, block)
		case "credential":
			credentials = append(credentials, block)
			d.credentialNames = append(d.credentialNames, block.Labels[0])
		case "sandbox":
			sandboxes = append(sandboxes, block)
		}
	}
	// First, because other blocks can refer to it.
	if workspace != nil {
		workspaceSchema.read(d, workspace.Body, workspace.DefRange, &f.options)
	}
	f.options.Engines = d.engineBlocks(engines)
	if credentials != nil {
		f.options.Credentials = d.credentialBlocks(credentials, f.eval)
	}
	d.sandboxes(f, sandboxes)
	if len(sandboxes) == 0 && len(engines) == 0 && !slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "sandbox" }) {
		d.report(body.MissingItemRange(), "No sandbox", `The file defines no sandbox: add a block such as sandbox "fast" { engine = "auto" }.`)
	}
	d.defaultSandbox(f, content.Attributes["default_sandbox"])
	if mcp != nil { // after the sandboxes, which it refers to
		d.defined = f
		mcpSchema.read(d, mcp.Body, mcp.DefRange, &f.mcp)
	}
}

func (d *decoder) sandboxes(f *File, blocks hcl.Blocks) {
	f.options.Sandboxes = make(map[string]host.Definition, len(blocks))
	f.sandboxes = make(map[string]*sandboxBlock, len(blocks))
	for _, block := range blocks {
		name, dup := d.blockName(block, "a sandbox", "none", "auto")
		def, config := d.sandbox(block.Body)
		if dup {
			continue
		}
		if config != nil {
			d.dryRun(config.Body.(*hclsyntax.Body))
		}
		f.sandboxes[name] = &sandboxBlock{block, config}
		f.names = append(f.names, name)
		f.options.Sandboxes[name] = def
	}
}

// dryRun evaluates config blocks, which need an engine's schema, so that their errors appear along
// with all others.
func (d *decoder) dryRun(body *hclsyntax.Body) {
	for _, attr := range body.Attributes {
		d.evaluate("config."+attr.Name, attr.Expr)
	}
	for _, block := range body.Blocks {
		d.dryRun(block.Body)
	}
}

func (d *decoder) defaultSandbox(f *File, attr *hcl.Attribute) {
	if attr == nil {
		if len(f.names) == 1 {
			f.options.DefaultSandbox = f.names[0]
		}
	} else if it, ok := d.item(attr); ok {
		f.options.DefaultSandbox, _ = d.sandboxName(f, it)
	}
}

// sandboxName is the name of a sandbox of the file.
func (d *decoder) sandboxName(f *File, it item) (string, bool) {
	name, ok := d.text(it)
	if _, found := f.sandboxes[name]; !ok || found || len(f.names) == 0 { // it reports a file without sandboxes elsewhere
		return name, ok
	}
	detail := upperFirst(f.noSuchSandbox(name))
	if it.hidden {
		detail = "The value is not the name of a sandbox."
	}
	d.report(it.at, "Unknown sandbox", detail)
	return "", false
}

// blockName returns the name of a block of a kind, such as "an engine". It reports an invalid name, and one that an
// earlier block has.
func (d *decoder) blockName(block *hcl.Block, kind string, reserved ...string) (name string, dup bool) {
	name, at := block.Labels[0], block.LabelRanges[0]
	switch {
	case !paths.IsName(name):
		d.report(at, "Invalid name", fmt.Sprintf("%q cannot be the name of %s: it takes up to 64 letters, digits, -, _ and ., and begins with a letter or digit.", name, kind))
	case slices.Contains(reserved, name):
		d.report(at, "Reserved name", fmt.Sprintf("%q cannot be the name of %s, because it has another meaning. Choose another name.", name, kind))
	}
	key := block.Type + " " + name
	earlier, dup := d.blocks[key]
	if dup {
		d.report(at, "Duplicate "+block.Type, fmt.Sprintf("There is %s %q already, at %s.", kind, name, earlier))
	} else {
		d.blocks[key] = block.DefRange
	}
	return name, dup
}

func (d *decoder) engineBlocks(blocks hcl.Blocks) map[string]host.EngineSource {
	sources := make(map[string]host.EngineSource, len(blocks))
	for _, block := range blocks {
		// noop is the only engine that does not isolate. People would believe that a foreign engine
		// with its name does nothing more.
		name, dup := d.blockName(block, "an engine", "auto", "bubblewrap", "noop")
		var source host.EngineSource
		engineSchema.read(d, block.Body, block.DefRange, &source)
		if dup {
			continue
		}
		d.engines = append(d.engines, name)
		sources[name] = source
	}
	return sources
}
