package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

var testSchema = shared.OptionSchema{
	Attributes: []shared.OptionAttribute{
		{Name: "image", Type: shared.OptionString, Required: true},
		{Name: "privileged", Type: shared.OptionBool},
		{Name: "weight", Type: shared.OptionNumber},
		{Name: "args", Type: shared.OptionStringList},
		{Name: "labels", Type: shared.OptionStringMap},
		{Name: "new", Type: "set(tuple)"},
	},
}

func TestEngineOptions(t *testing.T) {
	t.Parallel()
	f := parse(t, `
engine "mine" {
  source = "/opt/mine"
}
sandbox "a" {
  engine = "mine"
  config {
    image      = "x:${platform.arch}"
    privileged = false
    weight     = 1.5
    args       = ["a", env.SECRET]
    labels     = { a = "<1>" }
  }
}
sandbox "b" {
  engine = "mine"
}
`)
	raw, diags := f.EngineOptions("a", testSchema)
	if diags.HasErrors() {
		t.Fatal(render(t, diags))
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := `{"args":["a","hunter2"],"image":"x:amd64","labels":{"a":"<1>"},"privileged":false,"weight":1.5}`
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(wanted)
	if string(a) != string(b) {
		t.Errorf("got %s", raw)
	}
	if raw, diags := f.EngineOptions("b", shared.OptionSchema{}); raw != nil || diags.HasErrors() {
		t.Errorf("no block: %s %v", raw, diags)
	}
}

func TestEngineOptionsErrors(t *testing.T) {
	t.Parallel()
	f := parse(t, `
engine "mine" {
  source = "/opt/mine"
}
sandbox "a" {
  engine = "mine"
  config {
    privileged = "yes"
    weight     = "1"
    args       = [1, "x"]
    labels     = ["x"]
    new        = 1
    imgae      = "x"
    network    = true
    pull       = "always"
    other {}
  }
}
sandbox "missing" {
  engine = "mine"
}
sandbox "b" {
  engine = "bwrap"
  config {
    image = "node"
  }
}
`)
	var b strings.Builder
	for _, tt := range []struct {
		sandbox string
		schema  shared.OptionSchema
	}{
		{"a", testSchema},
		{"missing", testSchema},
		{"b", shared.OptionSchema{}},
		{"b", shared.OptionSchema{Attributes: []shared.OptionAttribute{{Name: "extra", Type: shared.OptionBool}}}},
	} {
		raw, diags := f.EngineOptions(tt.sandbox, tt.schema)
		if raw != nil || !diags.HasErrors() {
			t.Errorf("%s was accepted: %s", tt.sandbox, raw)
		}
		b.WriteString(render(t, diags) + "--\n")
	}
	golden(t, "testdata/options.golden", []byte(b.String()))
}

// What "auto" is given are options that all its engines know. They are docker's, where that is declared, and
// docker itself is not needed to read them.
func TestOptionsOfAuto(t *testing.T) {
	t.Parallel()
	const text = `sandbox "a" {
  config {
    image = "debian:12"
    reuse = true
    cap_add = ["NET_ADMIN"]
    cpus = 1.5
  }
}
`
	f, _ := Parse("/c/config.hcl", []byte(text), testInput())
	shell := shared.OptionSchema{Attributes: []shared.OptionAttribute{{Name: "image", Type: shared.OptionString}}}
	if _, diags := f.EngineOptions("a", shell); !diags.HasErrors() || !strings.Contains(diags.Error(), `An argument named "reuse" is not expected here`) || strings.Contains(diags.Error(), "image\"") {
		t.Errorf("docker is not declared: %v", diags)
	}
	if _, diags := f.EngineOptions("a", shared.OptionSchema{}); !diags.HasErrors() || !strings.Contains(diags.Error(), "no option in common") {
		t.Errorf("nothing in common: %v", diags)
	}
	f, diags := Parse("/c/config.hcl", []byte(text+"engine \"docker\" {\n  source = \"/opt/sbxhost-engine-docker\"\n}\n"), testInput())
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	bwrap := shared.OptionSchema{Attributes: []shared.OptionAttribute{{Name: "path", Type: shared.OptionString}}}
	raw, diags := f.EngineOptions("a", bwrap)
	if want := `{"cap_add":["NET_ADMIN"],"cpus":1.5,"image":"debian:12","reuse":true}`; diags.HasErrors() || string(raw) != want {
		t.Errorf("%s, %v", raw, diags)
	}
	o, _ := f.Options()
	def := o.Sandboxes["a"]
	def.Config = raw
	o.Sandboxes["a"] = def
	var got []string
	for _, s := range f.Settings("a", o, bwrap) {
		if strings.HasPrefix(s.Attribute, "config.") {
			got = append(got, fmt.Sprintf("%s %s %d", s.Attribute, s.Value, s.Line))
		}
	}
	if want := []string{`config.cap_add ["NET_ADMIN"] 5`, "config.cpus 1.5 6", "config.image debian:12 3", "config.reuse true 4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
