package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// Setting is one effective value and its origin.
type Setting struct {
	// Attribute is spelled as in shared.Error: "limits.memory". The rules of a network list are
	// also settings, "network[0]", after the list.
	Attribute string
	// Value is for people. For variables it has only their names. A default without a value is
	// "none", or "[]" for a list.
	Value string
	Line  int // where the file sets it; 0 for a default
}

// Settings returns the values in force for a sandbox with options, which are the file's with the
// caller's changes, in the order of Reference: every attribute, the engine's own options with its
// schema (shared.Info), and the engine block in use.
func (f *File) Settings(sandbox string, o host.Options, schema shared.OptionSchema) []Setting {
	var list []Setting
	add := func(attribute, value string) {
		list = append(list, Setting{attribute, value, f.line(sandbox, attribute)})
	}
	d := o.Sandboxes[sandbox]
	add("default_sandbox", cmp.Or(o.DefaultSandbox, "none"))
	sandboxSchema.show("", &d, func(attribute, value string) {
		add(attribute, value)
		if attribute == "network" {
			for i, rule := range d.Network.Names {
				add(fmt.Sprintf("network[%d]", i), rule)
			}
		}
	})
	sessionSchema.show("session.", &d, add)
	limitsSchema.show("limits.", &d, add)
	if len(d.Config) > 0 && f.dockersOptions(sandbox) && f.sandboxes[sandbox] != nil {
		schema = shared.OptionSchema{Attributes: f.decoder().written(f.sandboxes[sandbox].config)} // docker's
	}
	f.engineSettings(sandbox, d.Config, schema, add)
	workspaceSchema.show("workspace.", &o, add)
	approvalsSchema.show("approvals.", &o, add)
	auditSchema.show("audit.", &o, add)
	mcpSchema.show("mcp.", &f.mcp, add)
	for _, name := range slices.Sorted(slices.Values(d.Credentials)) {
		if set, own := o.Credentials[name]; own {
			credentialSchema.show("credential."+name+".", &set, add)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Engines)) {
		// "auto" may choose docker, if it is declared.
		if name == d.Engine || launch.IsAuto(d.Engine) {
			e := o.Engines[name]
			engineSchema.show("engine."+name+".", &e, add)
		}
	}
	return list
}

// engineSettings adds the options of an engine.
func (f *File) engineSettings(sandbox string, raw json.RawMessage, schema shared.OptionSchema, add func(attribute, value string)) {
	var values map[string]json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &values) != nil {
		return // the engine reports the error
	}
	for _, attr := range schema.Attributes {
		value, set := values[attr.Name]
		if !set {
			value = attr.Default
		}
		text := cmp.Or(string(value), "none")
		if s := ""; json.Unmarshal(value, &s) == nil {
			text = s
		}
		if _, at, _ := f.locate(sandbox, "config."+attr.Name); at != nil && f.path != "" && refersToEnv(at.Expr) {
			text = "not shown, because it comes from a variable" // it may be a secret
		}
		add("config."+attr.Name, text)
	}
}

func bindTexts(binds []host.Bind) (list []string) {
	for _, b := range binds {
		s := b.Host
		if b.Container != "" {
			s += " as " + b.Container
		}
		if b.Writable {
			s += " (writable)"
		}
		if b.Optional {
			s += " (optional)"
		}
		list = append(list, s)
	}
	return list
}

func listOf(texts []string) string {
	return fmt.Sprintf("[%s]", strings.Join(texts, ", "))
}

// line is the line on which the file sets a sandbox's or a general attribute, or an element of a
// list; 0 if it does not.
func (f *File) line(sandbox, attribute string) int {
	at, attr, _ := f.locate(sandbox, attribute)
	switch {
	case attr == nil || f.path == "":
		return 0
	case strings.HasSuffix(attribute, "]"):
		return at.Start.Line
	}
	return attr.NameRange.Start.Line
}
