package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/host"
)

// Setting is one effective value and where it came from.
type Setting struct {
	// Attribute is spelled as in shared.Error: "limits.memory".
	Attribute string
	// Value is for people. Of variables it has the names alone.
	Value string
	// File and Line say where the file sets it; the line is 0 for a default.
	File string
	Line int
}

// Settings gives the values that hold for a sandbox with options, which are
// those of the file as the caller has changed them, in the order of the
// reference. A limit that is not set is left out.
func (f *File) Settings(sandbox string, o host.Options) []Setting {
	var list []Setting
	add := func(attribute, value string) {
		if value == "" {
			return
		}
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
	var binds []string
	for _, b := range d.BindPaths {
		s := b.Host
		if b.Container != "" {
			s += " as " + b.Container
		}
		if b.Writable {
			s += " (writable)"
		}
		binds = append(binds, s)
	}
	add("engine", cmp.Or(d.Engine, "auto"))
	add("fallback", cmp.Or(d.Fallback, fallback))
	add("network", strconv.FormatBool(d.Network))
	add("filesystem", cmp.Or(d.Filesystem, "minimal"))
	add("read_only", strconv.FormatBool(d.ReadOnly))
	add("workdir", cmp.Or(d.Workdir, "host"))
	add("bind_paths", listOf(binds))
	add("deny_paths", listOf(d.DenyPaths))
	add("env_passthrough", listOf(d.EnvPassthrough))
	add("env", listOf(slices.Sorted(maps.Keys(d.Env))))
	add("credentials", listOf(d.Credentials))

	l := d.Limits
	number := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}
	span := func(t time.Duration) string {
		if t == 0 {
			return ""
		}
		return t.String()
	}
	add("limits.timeout", span(l.Timeout))
	add("limits.grace", cmp.Or(span(l.Grace), host.DefaultGrace.String()))
	add("limits.memory", number(l.Memory))
	if l.CPUs > 0 {
		add("limits.cpus", strconv.FormatFloat(l.CPUs, 'g', -1, 64))
	}
	add("limits.pids", number(l.PIDs))
	add("limits.open_files", number(l.OpenFiles))
	add("limits.temp_size", number(l.TempSize))
	add("limits.enforce", cmp.Or(l.Enforce, "required"))

	add("workspace.root", cmp.Or(o.Workspace.Root, "found from the current directory"))
	add("workspace.readable", listOf(o.Workspace.Readable))
	add("workspace.writable", listOf(o.Workspace.Writable))
	add("workspace.env", listOf(slices.Sorted(maps.Keys(o.Workspace.Env))))

	a := o.Approvals
	add("approvals.mode", a.Mode.String())
	add("approvals.session_ttl", cmp.Or(span(a.SessionTTL), host.DefaultSessionTTL.String()))
	add("approvals.allow_bypass", strconv.FormatBool(a.AllowBypass))
	if o.Audit.Path != "" {
		add("audit.path", o.Audit.Path)
		add("audit.max_size", number(cmp.Or(o.Audit.MaxSize, audit.DefaultMaxSize)))
		add("audit.keep", number(cmp.Or(o.Audit.Keep, audit.DefaultKeep)))
		add("audit.on_error", map[bool]string{false: "stop", true: "continue"}[o.Audit.Continue])
	}
	return list
}

func listOf(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf("[%s]", strings.Join(texts, ", "))
}

// line is the line on which the file sets an attribute of a sandbox, or of
// what holds for all; 0 where it does not.
func (f *File) line(sandbox, attribute string) int {
	if f.path == "" || f.body == nil {
		return 0
	}
	block, name, nested := strings.Cut(attribute, ".")
	switch block {
	case "workspace", "approvals", "audit":
		return lineIn(f.body, block, name)
	}
	b := f.sandboxes[sandbox]
	if b == nil || b.body == nil {
		return 0
	}
	if nested {
		return lineIn(b.body, block, name)
	}
	if attr := b.body.Attributes[block]; attr != nil {
		return attr.NameRange.Start.Line
	}
	return 0
}

func lineIn(body *hclsyntax.Body, block, name string) int {
	for _, b := range body.Blocks {
		if attr := b.Body.Attributes[name]; b.Type == block && attr != nil {
			return attr.NameRange.Start.Line
		}
	}
	return 0
}
