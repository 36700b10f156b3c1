package config

import (
	"encoding/json"
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
	Blocks: []shared.OptionBlock{{
		Name:       "build",
		Attributes: []shared.OptionAttribute{{Name: "context", Type: shared.OptionString, Required: true}},
	}},
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
    build {
      context = "."
    }
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
	want := `{"args":["a","hunter2"],"build":{"context":"."},"image":"x:amd64","labels":{"a":"<1>"},"privileged":false,"weight":1.5}`
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
    build {
      contxt = "."
    }
    build {}
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
