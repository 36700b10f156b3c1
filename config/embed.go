package config

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
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
// Diagnostics are HCL's own, for the program's own writer, and show no value that
// ctx marks, with whatever mark. With errors, the Definition must not be used.
//
// The Definition has no marks: what later comes of it, such as an error of the host that
// quotes a path, is for the program to treat as it treats the value.
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
		detail := fmt.Sprintf("The options of engine %s are not known: %v.", engine, err)
		if d.engineHidden {
			detail = "The options of the engine are not known; why is not shown, since that could show its name."
		}
		d.report(needed, "Engine not available", detail)
		return nil
	}
	if config == nil {
		return d.options(nil, needed, needed, engine, schema)
	}
	return d.options(config.Body, needed, config.DefRange, engine, schema)
}

// valueIn evaluates an expression. What is wrong with one that marked values come up in
// is not said, since functions and HCL itself quote values.
func valueIn(ctx *hcl.EvalContext, expr hcl.Expression) (val cty.Value, diags hcl.Diagnostics) {
	fails := func(detail string) hcl.Diagnostics {
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Invalid expression", Detail: detail, Subject: expr.Range().Ptr()}}
	}
	if _, native := expr.(hclsyntax.Node); !native {
		// HCL's JSON panics where the name of an entry is a marked value.
		defer func() {
			if recover() != nil {
				val, diags = cty.DynamicVal, fails("The expression fails; in JSON, the name of an entry cannot be a value that is marked.")
			}
		}()
	}
	if val, diags = expr.Value(ctx); diags.HasErrors() && meetsMarks(expr, ctx) {
		return val, fails("The expression fails; how is not shown, since that could show a value that is marked.")
	}
	return val, diags
}

// meetsMarks reports whether a marked value can come up while expr is evaluated. What
// cannot be told counts as one.
func meetsMarks(expr hcl.Expression, ctx *hcl.EvalContext) bool {
	for _, traversal := range expr.Variables() {
		// One that does not exist holds nothing; of a part that does not, all is looked at.
		val, diags := traversal.TraverseAbs(ctx)
		if diags.HasErrors() {
			val, _ = traversal[:1].TraverseAbs(ctx)
		}
		if val.ContainsMarked() {
			return true
		}
	}
	node, ok := expr.(hclsyntax.Node)
	if !ok {
		// In JSON the calls of functions are not to be seen.
		for ; ctx != nil; ctx = ctx.Parent() {
			if len(ctx.Functions) > 0 {
				return true
			}
		}
		return false
	}
	meets := false
	hclsyntax.VisitAll(node, func(node hclsyntax.Node) hcl.Diagnostics {
		if call, ok := node.(*hclsyntax.FunctionCallExpr); ok {
			// A function may give a marked value to the next one, whose error quotes it. What
			// fails by itself here may depend on the names of a for expression.
			for _, arg := range call.Args {
				val, diags := arg.Value(ctx)
				meets = meets || diags.HasErrors() || val.ContainsMarked()
			}
			val, diags := call.Value(ctx)
			meets = meets || !diags.HasErrors() && val.ContainsMarked()
		}
		return nil
	})
	return meets
}
