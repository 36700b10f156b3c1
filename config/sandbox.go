package config

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/source"
	"github.com/sbxhost/sbxhost/internal/view"
)

// sandbox decodes the body of a sandbox block. It returns the config block, which needs the
// engine's schema, or nil.
func (d *decoder) sandbox(body hcl.Body) (host.Definition, *hcl.Block) {
	var def host.Definition
	var config *hcl.Block
	content := sandboxSchema.read(d, body, body.MissingItemRange(), &def)
	for _, block := range content.Blocks {
		switch block.Type {
		case "session":
			sessionSchema.read(d, block.Body, block.DefRange, &def)
		case "limits":
			limitsSchema.read(d, block.Body, block.DefRange, &def)
		case "config":
			config = block
			if d.embedded && (def.Engine == "auto" || content.Attributes["engine"] == nil) {
				d.report(block.DefRange, "No engine for these options", "A config block holds the options of one engine: name it with the attribute engine, which is \"auto\" here.")
			}
		}
	}
	return def, config
}

// knownEngines are the allowed values of engine.
func (d *decoder) knownEngines() []string {
	ours := launch.Ours
	if d.embedded && d.engines != nil {
		ours = nil
	}
	return slices.Concat([]string{"auto"}, ours, d.engines)
}

func (d *decoder) engine(it item) string {
	s, ok := d.text(it)
	if !ok {
		return ""
	}
	name := launch.Name(s)
	known := d.knownEngines()
	if slices.Contains(known, name) {
		return name
	}
	detail := fmt.Sprintf("There is no engine %q.", s)
	if it.hidden {
		detail = "The value is not the name of an engine."
	}
	if near := source.Nearest(s, append(known, "bubblewrap")); near != "" && !it.hidden {
		detail += fmt.Sprintf(" Did you mean %q?", near)
	} else {
		detail += fmt.Sprintf(" There are %s.", list(quoted(known)))
		if !d.embedded {
			detail += " An engine block declares others."
		}
	}
	d.report(it.at, "Unknown engine", detail)
	return ""
}

func (d *decoder) workdir(it item) string {
	if s, ok := d.text(it); !ok || s == "host" {
		return s
	}
	return d.insidePath(it)
}

func (d *decoder) binds(it item) []host.Bind {
	items, ok := d.elements(it)
	if !ok {
		return nil
	}
	binds := make([]host.Bind, 0, len(items))
	destinations := make(map[string]string, len(items))
	for _, e := range items {
		bind, ok := d.bind(e)
		if !ok {
			continue
		}
		inside := path.Clean(cmp.Or(bind.Container, bind.Host))
		if first, dup := destinations[inside]; dup {
			d.invalid(e, "%s is already the destination of %s", e.show(inside), first)
			continue
		}
		destinations[inside] = e.name
		binds = append(binds, bind)
	}
	return binds
}

// bind decodes one element: a path, or an object with one.
func (d *decoder) bind(it item) (host.Bind, bool) {
	var bind host.Bind
	before := len(d.diags)
	if ty := it.val.Type(); it.val.IsNull() || !ty.IsObjectType() && !ty.IsMapType() {
		if !it.val.IsNull() && ty.FriendlyName() != "string" {
			d.wrongType(it, "a path or an object { host = ... }")
			return bind, false
		}
		var ok bool
		bind.Host, ok = d.bindPath(it)
		return bind, ok
	}

	fields, _ := d.fields(it)
	hasHost, names := false, namesOf(&bindSchema.schema)
	for _, f := range fields {
		hasHost = hasHost || f.key == "host"
		if i := slices.Index(names, f.key); i >= 0 {
			bindSchema.attributes[i].read(d, f.item, &bind)
			continue
		}
		detail := " It takes " + list(names) + "."
		if near := source.Nearest(f.key, names); near != "" && !f.hiddenKey {
			detail = fmt.Sprintf(" Did you mean %q?", near)
		}
		d.report(f.keyAt, "Unknown attribute", fmt.Sprintf("%s: %s is not one of its attributes.%s", it.name, f.showKey(), detail))
	}
	if !hasHost {
		d.report(it.at, "Missing attribute", it.name+" needs host, the path to show.")
	}
	return bind, len(d.diags) == before
}

func (d *decoder) passthrough(it item) []string {
	return d.texts(it, func(e item, s string) bool {
		switch {
		case !validEnvGlob(s):
			d.invalid(e, "%s is not the name of a variable (* and ? are wildcards); values are set in env", e.show(s))
		case env.IsInjector(s):
			d.invalid(e, "%s makes programs run code that its value names, so it is never passed on; to set it for the command, give it by name in env", e.show(s))
		default:
			if strings.Trim(s, "*") == "" {
				d.report(e.at, "Every variable is passed on", e.name+" passes every variable on, secrets too. Name the variables that commands need.")
				AsWarnings(d.diags[len(d.diags)-1:])
			}
			return true
		}
		return false
	})
}

func (d *decoder) credentials(it item) []string {
	var seen []string
	allowed := append(view.Credentials(), d.credentialNames...)
	return d.texts(it, func(e item, s string) bool {
		switch {
		case !slices.Contains(allowed, s):
			d.invalid(e, "there is no credential %s%s. Declare it: credential %[1]s { hosts = [...], value = ... }", e.show(s), didYouMean(e, s, allowed))
		case slices.Contains(seen, s):
			d.invalid(e, "%s is in the list already", e.show(s))
		default:
			seen = append(seen, s)
			return true
		}
		return false
	})
}
