package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/host/env"
)

// builtinEngines are the names that `engine` takes without an engine block.
func builtinEngines() []string {
	return []string{"auto", "native", "bwrap", "seatbelt", "docker", "noop"}
}

// sandbox decodes the body of a sandbox block. The config block, which only
// the engine's schema can decode, is returned as it is, or nil.
func (d *decoder) sandbox(body hcl.Body) (host.Definition, *hcl.Block) {
	var def host.Definition
	content := d.content(body, &sandboxSchema)
	d.engineHidden = false

	for _, name := range sandboxSchema.attrs {
		attr := content.Attributes[name]
		if attr == nil {
			continue
		}
		it, ok := d.item(attr)
		if !ok {
			continue
		}
		switch name {
		case "engine":
			def.Engine = d.engine(it)
		case "fallback":
			def.Fallback, _ = d.oneOf(it, "deny", "approve")
		case "network":
			def.Network, _ = d.bool(it)
		case "filesystem":
			def.Filesystem, _ = d.oneOf(it, "minimal", "host")
		case "read_only":
			def.ReadOnly, _ = d.bool(it)
		case "workdir":
			def.Workdir = d.workdir(it)
		case "bind_paths":
			def.BindPaths = d.binds(it)
		case "deny_paths":
			def.DenyPaths = d.pathPatterns(it)
			if it.val.CanIterateElements() && it.val.LengthInt() == 0 {
				d.invalid(it, "an empty list hides nothing; leave it out if that is meant")
			}
		case "protect_paths":
			def.ProtectPaths = d.pathPatterns(it)
		case "protect_paths_except":
			def.ProtectPathsExcept = d.givenUp(it)
		case "git":
			def.Git, _ = d.oneOf(it, "protected", "full")
		case "unix_sockets":
			def.UnixSockets = d.socketPaths(it)
		case "env_passthrough":
			def.EnvPassthrough = d.passthrough(it)
		case "env":
			def.Env, _ = d.environment(it)
		case "credentials":
			def.Credentials = d.credentials(it)
		}
	}

	var config *hcl.Block
	for _, block := range content.Blocks {
		switch block.Type {
		case "limits":
			def.Limits = d.limits(block.Body)
		case "config":
			config = block
			auto := content.Attributes["engine"] == nil || def.Engine == "auto"
			if auto && !slices.Contains(d.engines, "docker") {
				d.report(block.DefRange, "No engine for these options",
					"A config block holds the options of one engine: name it with the attribute engine, which is \"auto\" here, or declare docker by an engine block, and they are docker's.")
			}
		}
	}
	return def, config
}

func (d *decoder) engine(it item) string {
	d.engineHidden = it.hidden
	s, ok := d.text(it)
	if !ok {
		return ""
	}
	if s == "bubblewrap" {
		return "bwrap"
	}
	known := append(builtinEngines(), d.engines...)
	if slices.Contains(known, s) {
		return s
	}
	if d.installed != nil {
		known = append(known, d.installed()...)
		if slices.Contains(known, s) {
			return s
		}
	}
	detail := fmt.Sprintf("There is no engine %q.", s)
	if it.hidden {
		detail = "The value is not the name of an engine."
	}
	if near := nearest(s, append(known, "bubblewrap")); near != "" && !it.hidden {
		detail += fmt.Sprintf(" Did you mean %q?", near)
	} else {
		detail += fmt.Sprintf(" There are %s; an engine block declares others, and those in the directories of SBXHOST_ENGINE_PATH are found.", list(quoted(known), "and"))
	}
	d.report(it.at, "Unknown engine", detail)
	return ""
}

func (d *decoder) workdir(it item) string {
	if s, ok := d.text(it); !ok || s == "host" {
		return s
	}
	path, _ := d.insidePath(it)
	return path
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
		inside := bind.Container
		if inside == "" {
			inside = bind.Host
		}
		if first, dup := destinations[inside]; dup {
			d.invalid(e, "%s is what %s is shown as already", e.show(inside), first)
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
	ok := true
	if ty := it.val.Type(); it.val.IsNull() || !ty.IsObjectType() && !ty.IsMapType() {
		if s := it.val; !s.IsNull() && ty.FriendlyName() != "string" {
			d.wrongType(it, "a path or an object { host = ... }")
			return bind, false
		}
		bind.Host, ok = d.bindPath(it)
		return bind, ok
	}

	fields, ok := d.fields(it)
	hasHost := false
	for _, f := range fields {
		good := true
		switch f.key {
		case "host":
			hasHost = true
			bind.Host, good = d.bindPath(f.item)
		case "container":
			bind.Container, good = d.insidePath(f.item)
		case "read_only":
			var readOnly bool
			readOnly, good = d.bool(f.item)
			bind.Writable = good && !readOnly
		case "optional":
			bind.Optional, good = d.bool(f.item)
		default:
			good = false
			detail := " It takes " + list(bindSchema.attrs, "and") + "."
			if near := nearest(f.key, bindSchema.attrs); near != "" && !f.hiddenKey {
				detail = fmt.Sprintf(" Did you mean %q?", near)
			}
			switch {
			case f.hiddenKey:
			case slices.Contains([]string{"source", "src", "path"}, f.key):
				detail = ` Did you mean "host"?`
			case slices.Contains([]string{"destination", "target", "dst"}, f.key):
				detail = ` Did you mean "container"?`
			case slices.Contains([]string{"writable", "readonly"}, f.key):
				detail = ` Did you mean "read_only"?`
			}
			d.report(f.keyAt, "Unknown attribute", fmt.Sprintf("%s: %s is none of its attributes.%s", it.name, f.showKey(), detail))
		}
		ok = ok && good
	}
	if !hasHost {
		d.report(it.at, "Missing attribute", it.name+" needs host, the path to show.")
		ok = false
	}
	return bind, ok
}

func (d *decoder) passthrough(it item) []string {
	items, ok := d.elements(it)
	if !ok {
		return nil
	}
	patterns := make([]string, 0, len(items))
	for _, e := range items {
		s, ok := d.text(e)
		switch {
		case !ok:
		case !validEnvGlob(s):
			d.invalid(e, "%s is not the name of a variable, with * and ? for what varies; values are set in env", e.show(s))
		case env.IsInjector(s):
			d.invalid(e, "%s makes programs run code that its value names, so it is never passed on; to set it for the command, give it by name in env", e.show(s))
		default:
			if onlyStars(s) {
				what := "a * by itself"
				if e.hidden {
					what = "the value"
				}
				d.warn(e.at, "Every variable is passed on",
					e.name+": "+what+" passes every variable on, secrets too. Name the variables that commands need.")
			}
			patterns = append(patterns, s)
		}
	}
	return patterns
}

func (d *decoder) credentials(it item) []string {
	var seen []string
	return d.good(it, func(e item) (string, bool) {
		s, ok := d.oneOf(e, host.Credentials()...)
		if ok && slices.Contains(seen, s) {
			d.invalid(e, "%s is in the list already", e.show(s))
			return "", false
		}
		seen = append(seen, s)
		return s, ok
	})
}

func onlyStars(s string) bool {
	for i := range len(s) {
		if s[i] != '*' {
			return false
		}
	}
	return true
}

func (d *decoder) limits(body hcl.Body) host.Limits {
	var limits host.Limits
	content := d.content(body, &limitsSchema)
	for _, name := range limitsSchema.attrs {
		attr := content.Attributes[name]
		if attr == nil {
			continue
		}
		it, ok := d.item(attr)
		if !ok {
			continue
		}
		it.name = "limits." + name
		switch name {
		case "timeout":
			limits.Timeout, _ = d.duration(it)
		case "grace":
			limits.Grace, _ = d.duration(it)
		case "memory":
			limits.Memory, _ = d.size(it)
		case "cpus":
			limits.CPUs, _ = d.cpus(it)
		case "pids":
			limits.PIDs, _ = d.count(it)
		case "open_files":
			limits.OpenFiles, _ = d.count(it)
		case "temp_size":
			limits.TempSize, _ = d.size(it)
		case "enforce":
			limits.Enforce, _ = d.oneOf(it, "required", "best_effort")
		}
	}
	return limits
}
