package config

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// SandboxOptions are what [DecodeSandbox] needs besides the block.
type SandboxOptions struct {
	// Dir is the absolute directory that relative paths are relative to, most
	// often that of the file. Empty makes relative paths an error.
	Dir string
	// Home is what ~ stands for. Empty makes ~ an error.
	Home string
	// Engines are the names that `engine` may have besides "auto", such as those of
	// Host.EngineNames. Nil means those of this project.
	Engines []string
	// Schema gives the options of an engine, from shared.Info. Nil makes a
	// config block an error.
	Schema func(engine string) (shared.OptionSchema, error)
}

// DecodeSandbox decodes the body of a `sandbox` block in a file of another
// program's format, in native or JSON syntax, under the same rules as in
// sbxhost's own. Expressions see what ctx gives them; nil gives them nothing.
// Diagnostics are HCL's own, for the program's own writer. With errors, the Definition must
// not be used.
//
// A value that ctx marks, with whatever mark, is an error: what comes of a Definition, such as an error of
// the host that quotes a path, has no marks.
func DecodeSandbox(body hcl.Body, ctx *hcl.EvalContext, opts SandboxOptions) (host.Definition, hcl.Diagnostics) {
	d := &decoder{
		eval:     func(expr hcl.Expression) (cty.Value, hcl.Diagnostics) { return valueIn(ctx, expr) },
		dir:      opts.Dir,
		home:     opts.Home,
		engines:  opts.Engines,
		embedded: true,
	}
	def, config := d.sandbox(body)
	if !d.diags.HasErrors() && opts.Schema != nil {
		def.Config = d.embeddedOptions(body, config, def.Engine, opts.Schema)
	} else if config != nil && opts.Schema == nil {
		d.report(config.DefRange, "No options", "A config block is not supported here.")
	}
	if d.diags.HasErrors() {
		return host.Definition{}, d.diags
	}
	return def, d.diags
}

func (d *decoder) embeddedOptions(body hcl.Body, config *hcl.Block, engine string, schemaOf func(string) (shared.OptionSchema, error)) json.RawMessage {
	needed := LocateSandbox(body, "engine")
	if engine == "" || engine == "auto" {
		return nil // a config block with it is an error already
	}
	schema, err := schemaOf(engine)
	if err != nil {
		d.report(needed, "Engine not available", fmt.Sprintf("The options of engine %s are not known: %v.", engine, err))
		return nil
	}
	if config == nil {
		return d.options(nil, needed, needed, engine, schema)
	}
	return d.options(config.Body, needed, config.DefRange, engine, schema)
}

// valueIn evaluates an expression that neither refers to a marked value nor gives one.
func valueIn(ctx *hcl.EvalContext, expr hcl.Expression) (val cty.Value, diags hcl.Diagnostics) {
	marked := hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Marked value", Subject: expr.Range().Ptr(),
		Detail: "The expression has a value that is marked, as what is sensitive is. A sandbox takes none, since its definition has no marks."}}
	for _, traversal := range expr.Variables() {
		if val, diags := traversal.TraverseAbs(ctx); !diags.HasErrors() && val.ContainsMarked() {
			return cty.DynamicVal, marked
		}
	}
	if val, diags = expr.Value(ctx); val.ContainsMarked() {
		return cty.DynamicVal, marked
	}
	return val, diags
}
