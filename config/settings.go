package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// Setting is one effective value and where it came from.
type Setting struct {
	// Attribute is spelled as in shared.Error: "limits.memory".
	Attribute string
	// Value is for people. Of variables it has the names alone; "none", or "[]"
	// for a list, is the default of what there is no value for.
	Value string
	// File and Line say where the file sets it; the line is 0 for a default.
	File string
	Line int
}

// Settings gives the values that hold for a sandbox with options, which are
// those of the file as the caller has changed them, in the order of the
// reference: every attribute there is, the engine's own options with the schema
// that it gave (shared.Info), and of the engine blocks the one that is used.
func (f *File) Settings(sandbox string, o host.Options, schema shared.OptionSchema) []Setting {
	var list []Setting
	add := func(attribute, value string) {
		s := Setting{Attribute: attribute, Value: value}
		if line := f.line(sandbox, attribute); line > 0 {
			s.File, s.Line = f.source.name, line
		}
		list = append(list, s)
	}
	d := o.Sandboxes[sandbox]
	fallback := "approve"
	if d.Engine != "" && d.Engine != "auto" {
		fallback = "deny"
	}
	add("default_sandbox", cmp.Or(o.DefaultSandbox, "none"))
	add("engine", cmp.Or(d.Engine, "auto"))
	add("fallback", cmp.Or(d.Fallback, fallback))
	add("network", strconv.FormatBool(d.Network))
	add("filesystem", cmp.Or(d.Filesystem, "minimal"))
	add("read_only", strconv.FormatBool(d.ReadOnly))
	add("workdir", cmp.Or(d.Workdir, "host"))
	add("bind_paths", listOf(bindTexts(d.BindPaths)))
	add("deny_paths", listOf(d.DenyPaths))
	add("protect_paths", listOf(d.ProtectPaths))
	add("protect_paths_except", listOf(d.ProtectPathsExcept))
	add("git", cmp.Or(d.Git, "protected"))
	add("unix_sockets", listOf(d.UnixSockets))
	add("env_passthrough", listOf(d.EnvPassthrough))
	add("env", listOf(slices.Sorted(maps.Keys(d.Env))))
	add("credentials", listOf(d.Credentials))

	l := d.Limits
	cpus := ""
	if l.CPUs > 0 {
		cpus = strconv.FormatFloat(l.CPUs, 'g', -1, 64)
	}
	add("limits.timeout", cmp.Or(span(l.Timeout), "none"))
	add("limits.grace", cmp.Or(span(l.Grace), host.DefaultGrace.String()))
	add("limits.memory", cmp.Or(count(l.Memory), "none"))
	add("limits.cpus", cmp.Or(cpus, "none"))
	add("limits.pids", cmp.Or(count(l.PIDs), "none"))
	add("limits.open_files", cmp.Or(count(l.OpenFiles), "none"))
	add("limits.temp_size", cmp.Or(count(l.TempSize), "by the machine's memory"))
	add("limits.enforce", cmp.Or(l.Enforce, "required"))
	if len(d.Config) > 0 && (d.Engine == "" || d.Engine == "auto") && f.sandboxes[sandbox] != nil {
		schema = f.decoder().writtenSchema(f.sandboxes[sandbox].config) // docker's
	}
	f.engineSettings(sandbox, d.Config, schema, add)

	w := o.Workspace
	identity := "the git identity"
	if w.Env != nil {
		identity = listOf(slices.Sorted(maps.Keys(w.Env)))
	}
	add("workspace.root", cmp.Or(w.Root, "found from the current directory"))
	add("workspace.readable", listOf(w.Readable))
	add("workspace.writable", listOf(w.Writable))
	add("workspace.temp", strconv.FormatBool(w.Temp))
	add("workspace.toolchains", strconv.FormatBool(w.Toolchains))
	add("workspace.control_sockets", listOf(w.ControlSockets))
	add("workspace.harmless_files", listOf(o.Sensitive.Harmless))
	add("workspace.env", identity)

	a := o.Approvals
	add("approvals.mode", a.Mode.String())
	add("approvals.session_ttl", cmp.Or(span(a.SessionTTL), host.DefaultSessionTTL.String()))
	add("approvals.allow_bypass", strconv.FormatBool(a.AllowBypass))
	add("audit.path", cmp.Or(o.Audit.Path, "none"))
	if o.Audit.Path != "" {
		add("audit.max_size", count(cmp.Or(o.Audit.MaxSize, audit.DefaultMaxSize)))
		add("audit.keep", count(cmp.Or(o.Audit.Keep, audit.DefaultKeep)))
		add("audit.on_error", map[bool]string{false: "stop", true: "continue"}[o.Audit.Continue])
	}

	for _, name := range slices.Sorted(maps.Keys(o.Engines)) {
		// "auto" may come to docker, where that is declared.
		if auto := d.Engine == "" || d.Engine == "auto"; name != d.Engine && !auto {
			continue
		}
		e, at := o.Engines[name], "engine."+name+"."
		var sums []string
		for _, platform := range slices.Sorted(maps.Keys(e.SHA256)) {
			sums = append(sums, platform+" = "+e.SHA256[platform])
		}
		add(at+"source", e.Source)
		add(at+"sha256", listOf(sums))
		add(at+"env", listOf(e.Env))
		add(at+"args", f.shown(f.attribute(sandbox, at+"args"), listOf(e.Args)))
	}
	return list
}

// engineSettings adds the options of an engine.
func (f *File) engineSettings(sandbox string, raw json.RawMessage, schema shared.OptionSchema, add func(attribute, value string)) {
	level := func(prefix string, raw json.RawMessage, attrs []shared.OptionAttribute) map[string]json.RawMessage {
		var values map[string]json.RawMessage
		if len(raw) > 0 && json.Unmarshal(raw, &values) != nil {
			return nil // the engine says what is wrong with it
		}
		for _, attr := range attrs {
			value, set := values[attr.Name]
			if !set {
				value = attr.Default
			}
			text := cmp.Or(string(value), "none")
			if s := ""; json.Unmarshal(value, &s) == nil {
				text = s
			}
			add(prefix+attr.Name, f.shown(f.attribute(sandbox, prefix+attr.Name), text))
		}
		return values
	}
	values := level("config.", raw, schema.Attributes)
	for _, block := range schema.Blocks {
		level("config."+block.Name+".", values[block.Name], block.Attributes)
	}
}

// ShownOptions are the options of an engine, as EngineOptions gives them, fit to
// be shown: what comes of a variable of the environment is not in them.
func (f *File) ShownOptions(sandbox string, raw json.RawMessage) json.RawMessage {
	return f.shownOptions(sandbox, "config.", raw)
}

func (f *File) shownOptions(sandbox, prefix string, raw json.RawMessage) json.RawMessage {
	var values map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &values) != nil || values == nil {
		return raw
	}
	for name, value := range values {
		attr := f.attribute(sandbox, prefix+name)
		if text := f.shown(attr, ""); text != "" {
			values[name], _ = json.Marshal(text)
		} else if attr == nil {
			values[name] = f.shownOptions(sandbox, prefix+name+".", value) // a block
		}
	}
	out, err := json.Marshal(values)
	if err != nil { // values that were decoded a moment ago
		return nil
	}
	return out
}

// shown is a value as people may see it: what comes of a variable may be a
// secret, in places where secrets are passed on.
func (f *File) shown(attr *hclsyntax.Attribute, value string) string {
	if attr != nil && refersToEnv(attr.Expr) {
		return "not shown, since it comes of a variable"
	}
	return value
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

// count is "" for none.
func count(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// span is "" for none.
func span(t time.Duration) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

func listOf(texts []string) string {
	return fmt.Sprintf("[%s]", strings.Join(texts, ", "))
}

// line is the line on which the file sets an attribute of a sandbox, or of
// what holds for all; 0 where it does not.
func (f *File) line(sandbox, attribute string) int {
	if attr := f.attribute(sandbox, attribute); attr != nil {
		return attr.NameRange.Start.Line
	}
	return 0
}

// attribute finds one in the file: "network", "config.cache.ttl",
// "engine.mine.source". It is nil where the file does not set it.
func (f *File) attribute(sandbox, name string) *hclsyntax.Attribute {
	if f.path == "" || f.body == nil {
		return nil
	}
	// An engine's name can have dots in it.
	if rest, ok := strings.CutPrefix(name, "engine."); ok {
		i := strings.LastIndexByte(rest, '.')
		if block := f.engineBlock(rest[:max(i, 0)]); block != nil {
			return block.Body.Attributes[rest[i+1:]]
		}
		return nil
	}
	steps := strings.Split(name, ".")
	body := f.body
	if !slices.Contains([]string{"default_sandbox", "workspace", "approvals", "audit"}, steps[0]) {
		b := f.sandboxes[sandbox]
		if b == nil || b.body == nil {
			return nil
		}
		body = b.body
	}
	for ; len(steps) > 1; steps = steps[1:] {
		i := slices.IndexFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == steps[0] })
		if i < 0 {
			return nil
		}
		body = body.Blocks[i].Body
	}
	return body.Attributes[steps[0]]
}
