package config

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// SandboxOptions are the inputs of [DecodeSandbox] besides the block.
type SandboxOptions struct {
	// Dir is the absolute directory for relative paths, usually that of the file. Empty makes
	// relative paths an error.
	Dir string
	// Home replaces ~. Empty makes ~ an error.
	Home string
	// Engines are the allowed values of `engine` besides "auto". Nil means this project's engines;
	// no Host is needed for that. Host.EngineNames also returns those of Options.Engines and
	// EngineDir; its Host needs no Sandboxes.
	Engines []string
	// Schema returns the options of an engine, from shared.Info. Nil makes a config block an error.
	Schema func(engine string) (shared.OptionSchema, error)
}

// DecodeSandbox decodes the body of a `sandbox` block in another program's file, in native or JSON
// syntax, with the rules of sbxhost's own files. Expressions see the values in ctx; nil has none.
// The diagnostics are HCL's, for the program's own writer. Do not use the Definition if there are
// errors.
//
// A value that ctx marks, with any mark, is an error: the Definition cannot keep the mark, and the
// host's errors may quote its paths.
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
	needed := locateSandbox(body, "engine")
	if launch.IsAuto(engine) {
		return nil // that is an error elsewhere
	}
	schema, err := schemaOf(engine)
	if err != nil {
		d.report(needed, "Engine not available", fmt.Sprintf("The options of engine %s are not known: %v.", engine, err))
		return nil
	}
	return d.options(config, needed, engine, schema)
}

// valueIn evaluates an expression. It refuses marked inputs and results.
func valueIn(ctx *hcl.EvalContext, expr hcl.Expression) (val cty.Value, diags hcl.Diagnostics) {
	marked := hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Marked value", Subject: expr.Range().Ptr(),
		Detail: "The expression has a marked (sensitive) value. A sandbox accepts none, because its definition cannot keep marks."}}
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
