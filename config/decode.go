package config

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/host"
)

// file decodes the whole of a file into f.
func (d *decoder) file(f *File, body *hclsyntax.Body) {
	content := d.content(body, &fileSchema)
	var sandboxes, engines hcl.Blocks
	var workspace *hcl.Block
	for _, block := range content.Blocks {
		switch block.Type {
		case "workspace":
			workspace = block
		case "approvals":
			d.approvals(f, block.Body)
		case "audit":
			d.audit(f, block)
		case "engine":
			engines = append(engines, block)
		case "sandbox":
			sandboxes = append(sandboxes, block)
		}
	}
	// First: what the rest can refer to.
	if workspace != nil {
		f.options.Workspace = d.workspace(f, workspace.Body)
	}
	f.options.Engines = d.engineBlocks(engines)
	d.sandboxes(f, sandboxes)
	if len(sandboxes) == 0 && !slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "sandbox" }) {
		d.report(body.MissingItemRange(), "No sandbox", `The file defines no sandbox: add a block such as sandbox "fast" { engine = "auto" }.`)
	}
	d.defaultSandbox(f, content.Attributes["default_sandbox"])
}

func (d *decoder) sandboxes(f *File, blocks hcl.Blocks) {
	f.options.Sandboxes = make(map[string]host.Definition, len(blocks))
	f.sandboxes = make(map[string]*sandboxBlock, len(blocks))
	for _, block := range blocks {
		name, at := block.Labels[0], block.LabelRanges[0]
		first, dup := f.sandboxes[name]
		switch {
		case !validName(name):
			d.report(at, "Invalid name", fmt.Sprintf("%q cannot be the name of a sandbox: it takes up to 64 letters, digits, -, _ and ., and begins with a letter or digit.", name))
		case name == "none" || name == "auto":
			d.report(at, "Reserved name", fmt.Sprintf("%q cannot be the name of a sandbox, since it would read as no sandbox in particular. Choose another.", name))
		case dup:
			d.report(at, "Duplicate sandbox", fmt.Sprintf("There is a sandbox %q already, at %s.", name, first.header))
		}
		def, config := d.sandbox(block.Body)
		if dup {
			continue
		}
		b := &sandboxBlock{header: block.DefRange, engineHidden: d.engineHidden}
		b.body, _ = block.Body.(*hclsyntax.Body)
		if config != nil {
			b.config, b.configAt = config.Body, config.DefRange
			if native, ok := config.Body.(*hclsyntax.Body); ok {
				d.dryRun(native)
			}
		}
		f.sandboxes[name] = b
		f.names = append(f.names, name)
		f.options.Sandboxes[name] = def
	}
}

// dryRun evaluates what waits for an engine's schema, so that its errors are
// reported along with all others.
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
		return
	}
	it, ok := d.item(attr)
	if !ok {
		return
	}
	name, ok := d.text(it)
	if !ok {
		return
	}
	if _, found := f.sandboxes[name]; !found {
		if len(f.names) > 0 {
			detail := f.noSuchSandbox(name)
			if it.hidden {
				detail = "The value is not the name of a sandbox."
			}
			d.report(it.at, "Unknown sandbox", detail)
		}
		return
	}
	f.options.DefaultSandbox = name
}

func (d *decoder) workspace(f *File, body hcl.Body) host.WorkspaceOptions {
	var ws host.WorkspaceOptions
	content := d.content(body, &workspaceSchema)
	for _, name := range workspaceSchema.attrs {
		attr := content.Attributes[name]
		if attr == nil {
			continue
		}
		f.eval.evalRoot = name == "root"
		it, ok := d.item(attr)
		f.eval.evalRoot = false
		if !ok {
			continue
		}
		it.name = "workspace." + name
		switch name {
		case "root":
			if ws.Root, ok = d.hostPath(it); ok {
				f.eval.root = ws.Root
			}
		case "readable":
			ws.Readable, _ = d.hostPaths(it)
		case "writable":
			ws.Writable, _ = d.hostPaths(it)
		case "temp":
			ws.Temp, _ = d.bool(it)
		case "toolchains":
			ws.Toolchains, _ = d.bool(it)
		case "control_sockets":
			ws.ControlSockets, _ = d.hostPaths(it)
		case "harmless_files":
			f.options.Sensitive.Harmless = d.fileNames(it)
		case "env":
			ws.Env, _ = d.environment(it)
		}
	}
	return ws
}

func (d *decoder) engineBlocks(blocks hcl.Blocks) map[string]host.EngineSource {
	sources := make(map[string]host.EngineSource, len(blocks))
	first := make(map[string]hcl.Range, len(blocks))
	for _, block := range blocks {
		name, at := block.Labels[0], block.LabelRanges[0]
		earlier, dup := first[name]
		switch {
		case !validName(name):
			d.report(at, "Invalid name", fmt.Sprintf("%q cannot be the name of an engine: it takes up to 64 letters, digits, -, _ and ., and begins with a letter or digit.", name))
		case name == "auto" || name == "bubblewrap" || name == "noop":
			// noop is the one engine that does not isolate; a foreign one
			// under its name would be believed to do no more than that.
			d.report(at, "Reserved name", fmt.Sprintf("%q cannot be the name of a declared engine, since it has a meaning of its own. Choose another.", name))
		case dup:
			d.report(at, "Duplicate engine", fmt.Sprintf("There is an engine %q already, at %s.", name, earlier))
		}
		source := d.engineSource(block)
		if dup {
			continue
		}
		first[name] = block.DefRange
		d.engines = append(d.engines, name)
		sources[name] = source
	}
	return sources
}

func (d *decoder) engineSource(block *hcl.Block) host.EngineSource {
	var source host.EngineSource
	content := d.content(block.Body, &engineSchema)
	for _, name := range engineSchema.attrs {
		attr := content.Attributes[name]
		if attr == nil {
			continue
		}
		it, ok := d.item(attr)
		if !ok {
			continue
		}
		switch name {
		case "source":
			source.Source, _ = d.hostPath(it)
		case "env":
			names, ok := d.elements(it)
			for _, e := range names {
				s, good := d.text(e)
				if good && !validEnvName(s) {
					d.invalid(e, "%s is not the name of a variable", e.show(s))
				}
				source.Env = append(source.Env, s)
			}
			if ok && len(names) == 0 {
				source.Env = nil
			}
		case "args":
			source.Args, _ = d.texts(it)
		case "sha256":
			source.SHA256 = d.checksums(it)
		}
	}
	if content.Attributes["source"] == nil {
		d.report(block.DefRange, "Missing attribute", "An engine block needs source, the path of the engine's executable.")
	}
	return source
}

// checksums decodes checksums by platform, each such as "linux_amd64".
func (d *decoder) checksums(it item) map[string]string {
	fields, ok := d.fields(it)
	if !ok {
		return nil
	}
	if len(fields) == 0 {
		d.invalid(it, "an object without a checksum pins nothing; leave it out if that is meant, or fill it in with `sbxhost engines pin`")
		return nil
	}
	sums := make(map[string]string, len(fields))
	for _, f := range fields {
		if goos, arch, ok := strings.Cut(f.key, "_"); !ok || goos == "" || arch == "" {
			d.report(f.keyAt, "Invalid platform", fmt.Sprintf("%s: %s is no platform: it takes an operating system and an architecture as Go names them, such as linux_amd64.", it.name, f.showKey()))
			continue
		}
		sum, good := d.text(f.item)
		if !good {
			continue
		}
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256Size {
			d.invalid(f.item, "%s is no SHA-256: it takes 64 hexadecimal digits", f.show(sum))
			continue
		}
		sums[f.key] = strings.ToLower(sum)
	}
	return sums
}

// sha256Size is a SHA-256's length in bytes.
const sha256Size = 32
