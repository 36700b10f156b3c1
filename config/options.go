package config

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// EngineOptions decodes the config block of a sandbox for host.Definition.Config, with the schema
// of its engine (shared.Info). It returns nil if there is neither a block nor a required option.
// With the engine "auto", and docker declared, the options are docker's, which may never start: the
// types of the values replace the schema, and docker checks them.
func (f *File) EngineOptions(sandbox string, schema shared.OptionSchema) (json.RawMessage, Diagnostics) {
	b := f.sandboxes[sandbox]
	if b == nil || f.diags.HasErrors() {
		return nil, f.diags
	}
	d := f.decoder()
	if f.dockersOptions(sandbox) {
		schema = shared.OptionSchema{Attributes: d.written(b.config)}
	}
	needed, _ := f.Locate(sandbox, "config")
	raw := d.options(b.config, needed, cmp.Or(f.options.Sandboxes[sandbox].Engine, "auto"), schema)
	if diags := f.source.Finish(d.diags); diags.HasErrors() {
		return nil, diags
	}
	return raw, nil
}

// AddEngineOptions sets the Config of a sandbox in o, which must be complete, from the sandbox's
// config block. It starts an engine that is not part of this program if there are options to check.
// An error is a Diagnostics if the block has errors.
func (f *File) AddEngineOptions(ctx context.Context, o *host.Options, sandbox string) error {
	def := o.Sandboxes[sandbox]
	raw, diags := f.EngineOptions(sandbox, shared.OptionSchema{})
	if diags.HasErrors() || !launch.IsAuto(def.Engine) { // there are options, or one may be missing
		engines := launch.New(launch.Options{Builtins: o.Builtins, Declared: o.Engines, Inject: o.Inject})
		schema, known := engines.Options(def.Engine, def.Isolation == host.IsolationBestEffort)
		if !known && diags.HasErrors() {
			asking := *o
			asking.EnginesOnly = true
			h, err := host.New(ctx, asking)
			if err != nil {
				return err
			}
			defer h.Close()
			info, err := h.EngineInfo(ctx, def.Engine)
			if err != nil {
				return err
			}
			schema = info.Options
		}
		raw, diags = f.EngineOptions(sandbox, schema)
	}
	if diags.HasErrors() {
		return diags
	}
	def.Config = raw
	o.Sandboxes = maps.Clone(o.Sandboxes)
	o.Sandboxes[sandbox] = def
	return nil
}

// dockersOptions reports whether a config block is docker's and the engine "auto".
func (f *File) dockersOptions(sandbox string) bool {
	_, declared := f.options.Engines["docker"]
	return declared && launch.IsAuto(f.options.Sandboxes[sandbox].Engine)
}

// written lists the attributes of a config block, which may be nil, with the types of their values.
func (d *decoder) written(config *hcl.Block) (list []shared.OptionAttribute) {
	if config == nil {
		return nil
	}
	body := config.Body.(*hclsyntax.Body)
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		attr := shared.OptionAttribute{Name: name, Type: shared.OptionString}
		val, _ := d.evaluate("config."+name, body.Attributes[name].Expr)
		switch kind := val.Type(); {
		case kind == cty.Bool:
			attr.Type = shared.OptionBool
		case kind == cty.Number:
			attr.Type = shared.OptionNumber
		case isList(kind):
			attr.Type = shared.OptionStringList
		case kind.IsObjectType() || kind.IsMapType():
			attr.Type = shared.OptionStringMap
		}
		list = append(list, attr)
	}
	return list
}

// options decodes a config block, which may be nil; needed is then the attribute that needs one.
func (d *decoder) options(config *hcl.Block, needed hcl.Range, engine string, own shared.OptionSchema) json.RawMessage {
	if config == nil {
		for _, attr := range own.Attributes {
			if attr.Required {
				d.report(needed, "Missing config block",
					fmt.Sprintf("The engine needs the option %s: add config { %s = ... }.", attr.Name, attr.Name))
			}
		}
		return nil
	}
	if len(own.Attributes) == 0 {
		if launch.IsAuto(engine) {
			d.report(config.DefRange, "No engine for these options", "The engines that \"auto\" may choose here have no option in common: name one of them with the attribute engine.")
		} else {
			d.report(config.DefRange, "No options", "The engine has no options of its own: remove the config block.")
		}
		return nil
	}

	s := &hcl.BodySchema{}
	for _, a := range own.Attributes {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	content := d.content(config.Body, s)
	out := make(map[string]any, len(content.Attributes))
	for _, a := range own.Attributes {
		attr := content.Attributes[a.Name]
		if attr == nil {
			if a.Required {
				d.report(config.DefRange, "Missing attribute", fmt.Sprintf("The engine needs config.%s.", a.Name))
			}
			continue
		}
		it, ok := d.item(attr)
		if !ok {
			continue
		}
		it.name = "config." + a.Name
		out[a.Name] = d.option(it, a.Type)
	}
	raw, _ := json.Marshal(out) // the maps and values are plain
	return raw
}

func (d *decoder) option(it item, kind shared.OptionType) (value any) {
	switch kind {
	case shared.OptionString:
		value, _ = d.text(it)
	case shared.OptionBool:
		value, _ = d.bool(it)
	case shared.OptionNumber:
		if !d.is(it, cty.Number, "a number") {
			break
		}
		if n := it.val.AsBigFloat(); n.IsInf() {
			d.invalid(it, "must be finite")
		} else {
			value = json.Number(number(n))
		}
	case shared.OptionStringList:
		value = d.good(it, d.text)
	case shared.OptionStringMap:
		fields, _ := d.fields(it)
		values := make(map[string]string, len(fields))
		for _, f := range fields {
			values[f.key], _ = d.text(f.item)
		}
		value = values
	default:
		d.invalid(it, "the engine's schema has the type %q here, which this program is too old to know", kind)
	}
	return value
}
