package config

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/view"
)

// block is one kind of block: how to read each attribute into a T, and how to show its effective
// value. It is the only list of attributes.
type block[T any] struct {
	schema     hcl.BodySchema
	prefix     string // prefix of attributes in errors: "limits."
	attributes []attribute[T]
}

type attribute[T any] struct {
	name         string
	read         func(*decoder, item, *T)
	shown        func(*T) string // for people; "" shows nothing
	missingError string          // the error if it is missing; "" if it is optional
}

func newBlock[T any](prefix string, attributes []attribute[T], blocks ...hcl.BlockHeaderSchema) *block[T] {
	b := &block[T]{schema: hcl.BodySchema{Blocks: blocks}, prefix: prefix, attributes: attributes}
	for _, a := range attributes {
		b.schema.Attributes = append(b.schema.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	return b
}

// read reads the attributes of body into to.
func (b *block[T]) read(d *decoder, body hcl.Body, at hcl.Range, to *T) *hcl.BodyContent {
	content := d.content(body, &b.schema)
	for _, a := range b.attributes {
		attr := content.Attributes[a.name]
		var it item
		evaluated := true
		if attr != nil {
			it, evaluated = d.item(attr)
		}
		switch it.name = b.prefix + a.name; {
		case !evaluated:
		case attr == nil, it.val.IsNull(): // null means not set, as in Terraform
			if a.missingError != "" {
				d.report(at, "Missing attribute", a.missingError)
			}
		default:
			a.read(d, it, to)
		}
	}
	return content
}

// show shows the effective value of each attribute.
func (b *block[T]) show(prefix string, of *T, add func(attribute, value string)) {
	for _, a := range b.attributes {
		if text := a.shown(of); text != "" {
			add(prefix+a.name, text)
		}
	}
}

// Attributes of common types.

func aBool[T any](name string, at func(*T) *bool) attribute[T] {
	return a(name, at, orZero((*decoder).bool), strconv.FormatBool)
}

// aChoice is one of a few texts; the first is the default.
func aChoice[T any, S ~string](name string, at func(*T) *S, allowed ...S) attribute[T] {
	var words []string
	for _, word := range allowed {
		words = append(words, string(word))
	}
	return a(name, at, func(d *decoder, it item) S {
		text, _ := d.oneOf(it, words...)
		return S(text)
	}, func(value S) string { return string(cmp.Or(value, allowed[0])) })
}

// a is an attribute of type V.
func a[T, V any](name string, at func(*T) *V, read func(*decoder, item) V, shown func(V) string) attribute[T] {
	return attribute[T]{name: name,
		read:  func(d *decoder, it item, to *T) { *at(to) = read(d, it) },
		shown: func(of *T) string { return shown(*at(of)) }}
}

func aList[T any](name string, at func(*T) *[]string, read func(*decoder, item) []string) attribute[T] {
	return a(name, at, read, listOf)
}

// or shows without in place of an empty text.
func or(without string) func(string) string {
	return func(text string) string { return cmp.Or(text, without) }
}

func variablesOf(env map[string]string) string { return listOf(slices.Sorted(maps.Keys(env))) }

// aNumber is a number; zero shows the text without.
func aNumber[T any, N comparable](name string, at func(*T) *N, read func(*decoder, item) (N, bool), shown func(N) string, without string) attribute[T] {
	return a(name, at, orZero(read), func(value N) string {
		if zero := *new(N); value == zero {
			return without
		}
		return shown(value)
	})
}

// orZero is read for a value that is zero if it is invalid.
func orZero[V any](read func(*decoder, item) (V, bool)) func(*decoder, item) V {
	return func(d *decoder, it item) V {
		value, _ := read(d, it)
		return value
	}
}

// from makes the least value an argument of a reading function.
func from[N any](read func(*decoder, item, N) (N, bool), least N) func(*decoder, item) (N, bool) {
	return func(d *decoder, it item) (N, bool) { return read(d, it, least) }
}

func plain[N any](n N) string { return fmt.Sprint(n) }

func durationText(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

var fileSchema = hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{{Name: "default_sandbox"}},
	Blocks: []hcl.BlockHeaderSchema{{Type: "workspace"}, {Type: "approvals"}, {Type: "audit"}, {Type: "mcp"},
		labeled("credential"), labeled("engine"), labeled("sandbox")},
}

type definition = host.Definition

var sandboxSchema = newBlock("", []attribute[definition]{
	a("engine", func(x *definition) *string { return &x.Engine }, (*decoder).engine, or("auto")),
	{name: "fallback",
		read: func(d *decoder, it item, to *definition) {
			text, _ := d.oneOf(it, string(host.FallbackDeny), string(host.FallbackApprove))
			to.Fallback = host.Fallback(text)
		},
		shown: func(of *definition) string {
			if launch.IsAuto(of.Engine) {
				return string(cmp.Or(of.Fallback, host.FallbackApprove))
			}
			return string(cmp.Or(of.Fallback, host.FallbackDeny))
		}},
	a("network", func(x *definition) *host.Network { return &x.Network }, (*decoder).network, host.Network.String),
	a("host_ports", func(x *definition) *[]uint16 { return &x.HostPorts }, (*decoder).ports, func(ports []uint16) string { return strings.ReplaceAll(fmt.Sprint(ports), " ", ", ") }),
	aList("publish", func(x *definition) *[]string { return &x.Publish }, (*decoder).published),
	aChoice("isolation", func(x *definition) *host.Isolation { return &x.Isolation }, "full", host.IsolationBestEffort),
	aChoice("filesystem", func(x *definition) *host.Filesystem { return &x.Filesystem }, "minimal", host.FilesystemHost),
	aBool("read_only", func(x *definition) *bool { return &x.ReadOnly }),
	{name: "review",
		read: func(d *decoder, it item, to *definition) {
			if on, _ := d.bool(it); on {
				to.Review = host.NewReview
			}
		},
		shown: func(of *definition) string { return strconv.FormatBool(of.Review != "") }},
	a("workdir", func(x *definition) *string { return &x.Workdir }, (*decoder).workdir, or("host")),
	a("bind_paths", func(x *definition) *[]host.Bind { return &x.BindPaths }, (*decoder).binds, func(binds []host.Bind) string { return listOf(bindTexts(binds)) }),
	aList("deny_paths", func(x *definition) *[]string { return &x.DenyPaths }, (*decoder).hiddenPaths),
	aList("protect_paths", func(x *definition) *[]string { return &x.ProtectPaths }, (*decoder).pathPatterns),
	aList("protect_paths_except", func(x *definition) *[]string { return &x.ProtectPathsExcept }, (*decoder).protectExceptions),
	aChoice("git", func(x *definition) *host.Git { return &x.Git }, "protected", host.GitFull),
	aList("unix_sockets", func(x *definition) *[]string { return &x.UnixSockets }, (*decoder).socketPaths),
	aList("devices", func(x *definition) *[]string { return &x.Devices }, (*decoder).devices),
	aList("env_passthrough", func(x *definition) *[]string { return &x.EnvPassthrough }, (*decoder).passthrough),
	{name: "env",
		read: func(d *decoder, it item, to *definition) {
			var unset []field
			to.Env, unset = d.variables(it)
			for _, f := range unset {
				to.EnvUnset = append(to.EnvUnset, f.key)
			}
		},
		shown: func(of *definition) string {
			if of.EnvUnset != nil {
				return variablesOf(of.Env) + ", without " + strings.Join(of.EnvUnset, ", ")
			}
			return variablesOf(of.Env)
		}},
	aList("credentials", func(x *definition) *[]string { return &x.Credentials }, (*decoder).credentials),
}, hcl.BlockHeaderSchema{Type: "session"}, hcl.BlockHeaderSchema{Type: "limits"}, hcl.BlockHeaderSchema{Type: "config"})

var sessionSchema = newBlock("session.", []attribute[definition]{
	aBool("processes", func(x *definition) *bool { return &x.Session.Processes }),
	aNumber("idle", func(x *definition) *time.Duration { return &x.Session.Idle }, (*decoder).duration, durationText, durationText(host.DefaultIdle)),
})

var limitsSchema = newBlock("limits.", []attribute[definition]{
	aNumber("timeout", func(x *definition) *time.Duration { return &x.Limits.Timeout }, (*decoder).duration, durationText, "none"),
	aNumber("grace", func(x *definition) *time.Duration { return &x.Limits.Grace }, (*decoder).duration, durationText, durationText(host.DefaultGrace)),
	aNumber("memory", func(x *definition) *uint64 { return &x.Limits.Memory }, from((*decoder).size, 16<<20), view.SizeText, "none"),
	aNumber("cpus", func(x *definition) *float64 { return &x.Limits.CPUs }, (*decoder).cpus, plain, "none"),
	aNumber("pids", func(x *definition) *uint64 { return &x.Limits.PIDs }, from((*decoder).count, 16), plain, "none"),
	aNumber("open_files", func(x *definition) *uint64 { return &x.Limits.OpenFiles }, from((*decoder).count, 1), plain, "none"),
	aNumber("temp_size", func(x *definition) *uint64 { return &x.Limits.TempSize }, from((*decoder).size, 1), view.SizeText, "by the machine's memory"),
	aChoice("enforce", func(x *definition) *host.Enforce { return &x.Limits.Enforce }, "required", host.EnforceBestEffort),
})

// bindSchema is the schema of an object in bind_paths.
var bindSchema = newBlock("", []attribute[host.Bind]{
	{name: "host", read: func(d *decoder, it item, to *host.Bind) { to.Host, _ = d.bindPath(it) }},
	{name: "container", read: func(d *decoder, it item, to *host.Bind) { to.Container = d.insidePath(it) }},
	{name: "read_only", read: func(d *decoder, it item, to *host.Bind) {
		readOnly, ok := d.bool(it)
		to.Writable = ok && !readOnly
	}},
	{name: "optional", read: func(d *decoder, it item, to *host.Bind) { to.Optional, _ = d.bool(it) }},
})

var workspaceSchema = newBlock("workspace.", []attribute[host.Options]{
	{name: "root",
		read: func(d *decoder, it item, to *host.Options) {
			if traversal := refersToWorkspace(it.expr); traversal != nil {
				d.add(hcl.Diagnostics{refError(traversal, "No workspace root", "workspace.root cannot refer to itself.")})
			} else if path, ok := d.hostPath(it); ok {
				to.Workspace.Root = path
				d.setRoot(path)
			}
		},
		shown: func(of *host.Options) string { return cmp.Or(of.Workspace.Root, "found from the current directory") }},
	aList("readable", func(x *host.Options) *[]string { return &x.Workspace.Readable }, (*decoder).hostPaths),
	aList("writable", func(x *host.Options) *[]string { return &x.Workspace.Writable }, (*decoder).hostPaths),
	aBool("temp", func(x *host.Options) *bool { return &x.Workspace.Temp }),
	aBool("toolchains", func(x *host.Options) *bool { return &x.Workspace.Toolchains }),
	a("env", func(x *host.Options) *map[string]string { return &x.Workspace.Env }, (*decoder).environment, variablesOf),
})

var approvalsSchema = newBlock("approvals.", []attribute[host.Options]{
	{name: "mode",
		read: func(d *decoder, it item, to *host.Options) {
			if text, ok := d.oneOf(it, "ask", "always", "deny"); ok {
				to.Approvals.Mode, _ = policy.ParseMode(text)
				to.Approvals.ModeOrigin = fmt.Sprintf("approvals.mode (%s:%d)", it.at.Filename, it.at.Start.Line)
			}
		},
		shown: func(of *host.Options) string { return of.Approvals.Mode.String() }},
	aBool("allow_bypass", func(x *host.Options) *bool { return &x.Approvals.AllowBypass }),
})

var auditSchema = newBlock("audit.", []attribute[host.Options]{
	{name: "path", missingError: "An audit block needs path, the file to write to.",
		read:  func(d *decoder, it item, to *host.Options) { to.AuditLog, _ = d.hostPath(it) },
		shown: func(of *host.Options) string { return cmp.Or(of.AuditLog, "none") }},
})

var engineSchema = newBlock("", []attribute[host.EngineSource]{
	{name: "source", missingError: "An engine block needs source, the path of the engine's executable.",
		read:  func(d *decoder, it item, to *host.EngineSource) { to.Source, _ = d.hostPath(it) },
		shown: func(of *host.EngineSource) string { return of.Source }},
	{name: "sha256",
		read: func(d *decoder, it item, to *host.EngineSource) { to.SHA256 = d.checksums(it) },
		shown: func(of *host.EngineSource) string {
			var sums []string
			for _, platform := range slices.Sorted(maps.Keys(of.SHA256)) {
				sums = append(sums, platform+" = "+of.SHA256[platform])
			}
			return listOf(sums)
		}},
	aList("env", func(x *host.EngineSource) *[]string { return &x.Env }, (*decoder).variableNames),
})

func (d *decoder) variableNames(it item) []string {
	return d.texts(it, func(e item, s string) bool {
		valid := validEnvName(s)
		if !valid {
			d.invalid(e, "%s is not the name of a variable", e.show(s))
		}
		return valid
	})
}

// hiddenPaths are patterns, at least one.
func (d *decoder) hiddenPaths(it item) []string {
	if it.val.CanIterateElements() && it.val.LengthInt() == 0 {
		d.invalid(it, "an empty list hides nothing; if you mean that, remove it")
	}
	return d.pathPatterns(it)
}

// checksums decodes checksums by platform, such as "linux_amd64".
func (d *decoder) checksums(it item) map[string]string {
	fields, ok := d.fields(it)
	if !ok {
		return nil
	}
	if len(fields) == 0 {
		d.invalid(it, "an object without a checksum pins nothing; remove it, or write the checksum of the program for each platform")
		return nil
	}
	sums := make(map[string]string, len(fields))
	for _, f := range fields {
		if goos, arch, ok := strings.Cut(f.key, "_"); !ok || goos == "" || arch == "" {
			d.report(f.keyAt, "Invalid platform", fmt.Sprintf("%s: %s is not a platform: write an operating system and an architecture as Go names them, such as linux_amd64.", it.name, f.showKey()))
			continue
		}
		sum, good := d.text(f.item)
		if !good {
			continue
		}
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256Size {
			d.invalid(f.item, "%s is not a SHA-256: write 64 hexadecimal digits", f.show(sum))
			continue
		}
		sums[f.key] = strings.ToLower(sum)
	}
	return sums
}

// sha256Size is the length of a SHA-256 in bytes.
const sha256Size = 32
