package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/sbxhost/sbxhost/shared"
)

func decodeEmbedded(t *testing.T, src string, ctx *hcl.EvalContext, opts SandboxOptions) (string, hcl.Diagnostics) {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(src), "x.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	def, diags := DecodeSandbox(file.Body, ctx, opts)
	return string(def.Config), diags
}

func TestDecodeSandbox(t *testing.T) {
	t.Parallel()
	schema := func(engine string) (shared.OptionSchema, error) {
		if engine != "mine" {
			return shared.OptionSchema{}, errors.New("no such engine")
		}
		return testSchema, nil
	}
	unknown := &hcl.EvalContext{Variables: map[string]cty.Value{"later": cty.UnknownVal(cty.String)}}
	for name, tt := range map[string]struct {
		src, config, err string
		ctx              *hcl.EvalContext
		opts             SandboxOptions
	}{
		"options":          {src: "engine = \"mine\"\nconfig {\n image = \"x\"\n}\n", config: `{"image":"x"}`, opts: SandboxOptions{Engines: []string{"mine"}, Schema: schema}},
		"bad options":      {src: "engine = \"mine\"\nconfig {\n imgae = \"x\"\n}\n", err: `Did you mean "image"`, opts: SandboxOptions{Engines: []string{"mine"}, Schema: schema}},
		"required options": {src: "engine = \"mine\"\n", err: "needs the option image", opts: SandboxOptions{Engines: []string{"mine"}, Schema: schema}},
		"no schema":        {src: "engine = \"bwrap\"\nconfig {}\n", err: "not supported here"},
		"schema fails":     {src: "engine = \"bwrap\"\nconfig {}\n", err: "no such engine", opts: SandboxOptions{Schema: schema}},
		"relative":         {src: `bind_paths = ["x"]`, err: "relative"},
		"home":             {src: `bind_paths = ["~/x"]`, err: "home"},
		"unknown value":    {src: `workdir = later`, ctx: unknown, err: "not known yet"},
		"no variables":     {src: `workdir = env.X`, err: "Variables not allowed"},
		"docker declared":  {src: `engine = "docker"`, opts: SandboxOptions{Engines: []string{"docker"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, diags := decodeEmbedded(t, tt.src, tt.ctx, tt.opts)
			if got != tt.config || diags.HasErrors() != (tt.err != "") || !strings.Contains(diags.Error(), tt.err) {
				t.Errorf("got %s, %v", got, diags)
			}
		})
	}
}

// secretText is what no diagnostic may show.
const secretText = "hunter2canary"

// secretTexts are texts that are wrong for one attribute or another, in each way.
func secretTexts() []string {
	var list []string
	for _, form := range []string{"%s", "/%s", "/%s/../x", "~%s", "~/%s", "$%s", "%s*[", "1%s", "%s/x", "*%s", "LD_%s", "%s-x", "\x00%s"} {
		list = append(list, fmt.Sprintf(form, secretText))
	}
	return list
}

// shapes are expressions in which a value can come up, of a kind that %[1]s names.
func shapes() []string {
	list := []string{
		`%[1]s`, `[%[1]s]`, `["x", %[1]s]`, `[%[1]s, %[1]s]`, `"x${%[1]s}"`, `{ x = %[1]s }`, `{ (%[1]s) = "x" }`, `{ (%[1]s) = "x", (%[1]s) = 1 }`,
		`{ (%[1]s) = 1, x = nothing }`, `[%[1]s, nothing]`, `[{ (%[1]s) = 1 }]`,
		`-%[1]s`, `%[1]s.nope`, `%[1]s + 1`, `%[1]s ? 1 : 2`, `{ a = 1 }[%[1]s]`, `[for v in [%[1]s] : v + 1]`, `{ for v in [%[1]s, %[1]s] : v => v }`,
	}
	for _, name := range namesOf(&bindSchema.schema) {
		list = append(list, "[{ "+name+" = %[1]s }]", `["/x", { host = "/x", `+name+" = %[1]s }]")
	}
	return list
}

// everywhere gives each attribute of a sandbox, wherever it stands, the value of an
// expression, by its name for people.
func everywhere(t *testing.T, value string) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, name := range namesOf(&hcl.BodySchema{Attributes: sandboxSchema.schema.Attributes}) {
		sources[name] = name + " = " + value
	}
	sources["engine"] += "\nconfig {\n  imgae = 1\n}"
	for _, block := range sandboxSchema.schema.Blocks {
		switch block.Type {
		case "session":
			for _, name := range namesOf(&sessionSchema.schema) {
				sources["session."+name] = "session {\n  " + name + " = " + value + "\n}"
			}
		case "limits":
			for _, name := range namesOf(&limitsSchema.schema) {
				sources["limits."+name] = "limits {\n  " + name + " = " + value + "\n}"
			}
		case "config":
			for _, a := range testSchema.Attributes {
				sources["config."+a.Name] = "engine = \"mine\"\nconfig {\n  " + a.Name + " = " + value + "\n}"
			}
		default:
			t.Fatalf("the block %s is not tried here", block.Type)
		}
	}
	return sources
}

func shown(diags hcl.Diagnostics, files map[string]*hcl.File) string {
	var b strings.Builder
	for _, diag := range diags {
		fmt.Fprintf(&b, "%s: %s\n", diag.Summary, diag.Detail)
		if extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](diag); ok {
			fmt.Fprintln(&b, extra.FunctionCallError())
		}
	}
	if slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool { return d.Expression != nil }) { // of which it shows values
		_ = hcl.NewDiagnosticTextWriter(&b, files, 80, false).WriteDiagnostics(diags)
	}
	return b.String()
}

func tells(text string) bool {
	return strings.Contains(text, secretText)
}

// short is how many of the combinations of values, shapes and attributes there are for each that
// a short run tries. It is a prime, so that every value, shape and attribute is among these.
const short = 29

// A marked value is an error in each attribute and each part of a value, and no diagnostic holds it.
func TestMarkedValuesAreRefused(t *testing.T) {
	t.Parallel()
	given := cty.StringVal(secretText).Mark("sensitive")
	ctx := &hcl.EvalContext{
		Variables: map[string]cty.Value{"secret": given, "deep": cty.ObjectVal(map[string]cty.Value{"er": given, "other": cty.True})},
		Functions: map[string]function.Function{"give": function.New(&function.Spec{
			Type: function.StaticReturnType(cty.String),
			Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return given, nil },
		})},
	}
	try := func(src string, file *hcl.File, diags hcl.Diagnostics) {
		if diags.HasErrors() {
			t.Fatalf("%s: %v", src, diags)
		}
		_, diags = DecodeSandbox(file.Body, ctx, SandboxOptions{Dir: "/d", Engines: []string{"mine"}, Schema: func(string) (shared.OptionSchema, error) { return testSchema, nil }})
		if text := shown(diags, map[string]*hcl.File{"x": file}); !diags.HasErrors() || tells(text) {
			t.Errorf("%s:\n%s", src, text)
		}
	}
	for _, shape := range shapes() {
		for _, kind := range []string{"secret", "deep.er", "give()"} {
			for _, src := range everywhere(t, fmt.Sprintf(shape, kind)) {
				if strings.HasPrefix(src, "config") || strings.Contains(src, "\nconfig") {
					continue // what stands in it is read once all else is right
				}
				file, diags := hclsyntax.ParseConfig([]byte(src), "x", hcl.InitialPos)
				try(src, file, diags)
			}
		}
	}
	for _, name := range namesOf(&hcl.BodySchema{Attributes: sandboxSchema.schema.Attributes}) {
		for _, value := range []string{`"${secret}"`, `["${secret}"]`, `{"${secret}":"x"}`} {
			src := fmt.Sprintf(`{%q: %s}`, name, value)
			file, diags := json.Parse([]byte(src), "x")
			try(src, file, diags)
		}
	}
	if _, diags := decodeEmbedded(t, "read_only = deep.other\n", ctx, SandboxOptions{}); diags.HasErrors() {
		t.Errorf("beside a marked value: %v", diags)
	}
}

// No diagnostic holds the value of a variable, of whatever attribute of a file, nor what the host and
// engines say of it.
func TestVariablesAreNotShown(t *testing.T) {
	t.Parallel()
	n := 0
	for _, secret := range secretTexts() {
		if strings.Contains(secret, "\x00") {
			continue // no variable holds that
		}
		input := EvalInput{Home: "/home", LookupEnv: func(name string) (string, bool) { return secret, name == "SECRET" }}
		for _, shape := range append(shapes(), `tonumber(%[1]s)`, `regex("(", %[1]s)`, `element([], %[1]s)`) {
			value := fmt.Sprintf(shape, "env.SECRET")
			sources := map[string]string{}
			for attribute, src := range everywhere(t, value) {
				sources[attribute] = "engine \"mine\" {\n  source = \"/x\"\n}\nsandbox \"a\" {\n" + src + "\n}\n"
			}
			for block, name := range Reference {
				set := name + " = " + value
				switch block {
				case "sandbox", "session", "limits", "bind_paths": // tried everywhere
				case "":
					sources[name] = set + "\nsandbox \"a\" {}\n"
				case "engine", "credential":
					sources[block+".mine."+name] = block + " \"mine\" {\n  " + set + "\n}\nsandbox \"a\" {}\n"
				default:
					sources[block+"."+name] = block + " {\n  " + set + "\n}\nsandbox \"a\" {}\n"
				}
			}
			for _, attribute := range slices.Sorted(maps.Keys(sources)) {
				if n++; testing.Short() && n%short != 0 {
					continue
				}
				f, diags := Parse("/d/x.hcl", []byte(sources[attribute]), input)
				_, more := f.EngineOptions("a", testSchema)
				diags = append(diags, more...)
				suffixes := []string{"", "[0]", "[0].host", ".x"}
				if strings.HasPrefix(attribute, "engine.") || strings.HasPrefix(attribute, "credential.") {
					suffixes = suffixes[:1]
				}
				for _, suffix := range suffixes {
					diags = append(diags, f.Diagnose("a", &shared.Error{Attribute: attribute + suffix, Message: "there is no " + secret, Hint: "make " + secret})...)
				}
				if text := shown(diags, nil); tells(text) {
					t.Fatalf("%s\nshows a variable:\n%s", sources[attribute], text)
				}
			}
		}
	}
}

// A line that somebody is to write is not made another one.
func TestUpperFirst(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"say so":                            "Say so",
		"fallback = \"deny\" refuses it":    "fallback = \"deny\" refuses it",
		"bind_paths wants an absolute path": "bind_paths wants an absolute path",
		"":                                  "",
	} {
		if got := upperFirst(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// An error of the host has the same place in a body of the program's own, in either syntax,
// as in a file of ours.
func TestDiagnoseSandbox(t *testing.T) {
	t.Parallel()
	native, diags := hclsyntax.ParseConfig([]byte(located), "own.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var nativeBody hcl.Body
	for _, block := range native.Body.(*hclsyntax.Body).Blocks {
		if block.Type == "sandbox" {
			nativeBody = block.Body
		}
	}
	text := `{
  "bind_paths": ["/x",
    {"host": "/y"}],
  "engine": "mine",
  "limits": {
    "memory": "1GiB"},
  "env": {"A": "1",
    "CI": "${secret}"}
}`
	inJSON, diags := json.Parse([]byte(text), "own.hcl.json")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	line := func(body hcl.Body, attribute string) int {
		return locateSandbox(body, attribute).Start.Line
	}
	ours := parse(t, located)
	for _, attribute := range []string{"network", "bind_paths", "bind_paths[0]", "bind_paths[1].host", "limits.memory", "limits.pids", "config.image", "config.inner.y[0]"} {
		at, _ := ours.Locate("a", attribute)
		if got := locateSandbox(nativeBody, attribute); got.Start.Line != at.Start.Line || got.Filename != "own.hcl" {
			t.Errorf("%s: %v, want %v", attribute, got, at)
		}
	}
	for attribute, want := range map[string]int{
		"bind_paths[0]": 2, "bind_paths[1].host": 3, "limits.memory": 6, "env.CI": 8, "filesystem": 9, "config.image": 4,
	} {
		if got := line(inJSON.Body, attribute); got != want {
			t.Errorf("in JSON, %s is on line %d, want %d", attribute, got, want)
		}
	}

	memory := &shared.Error{Kind: shared.ErrUnsupported, Attribute: "limits.memory", Message: "no cgroup is ours", Hint: `set enforce = "best_effort"`}
	env := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "env.CI", Message: secretText + " is bad"}
	wrapped := fmt.Errorf("sandbox %q: %w", "a", errors.Join(memory, env, errors.New("something else")))
	if got := DiagnoseSandbox(nativeBody, memory); len(got) != 1 || got[0].Subject.Start.Line != 13 || got[0].Detail != `limits.memory: no cgroup is ours. Set enforce = "best_effort".` {
		t.Errorf("got %v", got)
	}
	got := DiagnoseSandbox(inJSON.Body, errors.Join(memory, env, errors.New("something else")))
	if len(got) != 3 || got[0].Subject.Start.Line != 6 || got[1].Subject.Start.Line != 8 || got[2].Subject.Start.Line != 9 {
		t.Errorf("got %v", got)
	}
	if got := DiagnoseSandbox(inJSON.Body, wrapped); len(got) != 1 || got[0].Subject.Start.Line != 6 {
		t.Errorf("got %v", got)
	}
	if got := DiagnoseSandbox(nativeBody, nil); len(got) != 0 {
		t.Errorf("no error gave %v", got)
	}
}

// A missing config block is told at the attribute that needs one, and an engine is looked for
// among those that the program has.
func TestEmbeddedEngines(t *testing.T) {
	t.Parallel()
	schema := func(string) (shared.OptionSchema, error) { return testSchema, nil }
	_, diags := decodeEmbedded(t, "network = true\nengine = \"mine\"\n", nil, SandboxOptions{Engines: []string{"mine"}, Schema: schema})
	if len(diags) != 1 || diags[0].Subject.Start.Line != 2 {
		t.Errorf("got %v", diags)
	}
	for engine, want := range map[string]string{"docker": `There is no engine "docker". There are "auto" and "mine".`, "bubblewrap": `There is no engine "bubblewrap".`, "mien": `Did you mean "mine"?`} {
		_, diags = decodeEmbedded(t, fmt.Sprintf("engine = %q", engine), nil, SandboxOptions{Engines: []string{"mine"}})
		if len(diags) != 1 || !strings.Contains(diags[0].Detail, want) || strings.Contains(diags[0].Detail, "native") || strings.Contains(diags[0].Detail, "engine block") {
			t.Errorf("%s: got %v", engine, diags)
		}
	}
	if _, diags = decodeEmbedded(t, `engine = "auto"`, nil, SandboxOptions{Engines: []string{"mine"}}); diags.HasErrors() {
		t.Error(diags)
	}
	if _, diags = decodeEmbedded(t, `engine = "bubblewrap"`, nil, SandboxOptions{Engines: []string{"bwrap"}}); diags.HasErrors() {
		t.Error(diags)
	}
	if _, diags = decodeEmbedded(t, `engine = "nope"`, nil, SandboxOptions{}); strings.Contains(diags.Error(), "SBXHOST") || strings.Contains(diags.Error(), "engine block") {
		t.Errorf("an engine block is no part of another program's files: %v", diags)
	}
}
