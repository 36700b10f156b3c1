package config

import (
	"reflect"
	"testing"

	"github.com/sbxhost/sbxhost/host"
)

// againText uses variables, also in an engine's options.
const againText = `
workspace {
  writable = ["~/more"]
}
sandbox "a" {
  engine = "mine"
  env    = { TOKEN = env.TOKEN, NONE = coalesce(env.NONE, "none") }
  config {
    image = env.IMAGE
  }
}
engine "mine" {
  source = "/opt/mine"
}
`

func againInput(home string, environ map[string]string) EvalInput {
	return EvalInput{Home: home, LookupEnv: func(name string) (string, bool) {
		value, set := environ[name]
		return value, set
	}, Root: func() (string, error) { return home, nil }}
}

func again(t *testing.T, text string) *File {
	t.Helper()
	f, diags := Parse("/w/config.hcl", []byte(text), againInput("/home/u", map[string]string{"TOKEN": "1", "IMAGE": "one"}))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f
}

func TestAgain(t *testing.T) {
	t.Parallel()
	f := again(t, againText)
	options, _ := f.Options()
	for name, c := range map[string]struct {
		text, home string
		environ    map[string]string
		same       bool
	}{
		"the same":                       {againText, "/home/u", map[string]string{"TOKEN": "1", "IMAGE": "one"}, true},
		"a variable that nothing uses":   {againText, "/home/u", map[string]string{"TOKEN": "1", "IMAGE": "one", "STEP": "7"}, true},
		"another engine's option":        {againText, "/home/u", map[string]string{"TOKEN": "1", "IMAGE": "two"}, false},
		"another value":                  {againText, "/home/u", map[string]string{"TOKEN": "2", "IMAGE": "one"}, false},
		"no value any more":              {againText, "/home/u", nil, false},
		"an empty value instead of none": {againText, "/home/u", map[string]string{"TOKEN": "1", "IMAGE": "one", "NONE": ""}, false},
		"another home":                   {againText, "/home/v", map[string]string{"TOKEN": "1", "IMAGE": "one"}, false},
		"one more space":                 {againText + " ", "/home/u", map[string]string{"TOKEN": "1", "IMAGE": "one"}, false},
	} {
		input := againInput(c.home, c.environ)
		got := f.Again([]byte(c.text), input)
		if (got != nil) != c.same {
			t.Errorf("%s: used again: %v", name, got != nil)
		}
		if got == nil {
			continue
		}
		anew, _ := Parse("/w/config.hcl", []byte(c.text), input)
		want, _ := anew.Options()
		if o, diags := got.Options(); diags.HasErrors() || !reflect.DeepEqual(o, want) || !reflect.DeepEqual(o, options) {
			t.Errorf("%s: other options than when read anew: %+v", name, o)
		}
		raw, _ := got.EngineOptions("a", testSchema)
		wanted, _ := anew.EngineOptions("a", testSchema)
		if !reflect.DeepEqual(raw, wanted) {
			t.Errorf("%s: the engine gets %s instead of %s", name, raw, wanted)
		}
	}
}

// What is not compared is read anew: where the workspace is, and which engines there are.
func TestAgainReadsAnew(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"workspace.root":        `sandbox "a" { bind_paths = [{ host = "${workspace.root}/x" }] }`,
		"a warning or an error": `sandbox "a" { engin = "native" }`,
	} {
		input := againInput("/home/u", nil)
		f, _ := Parse("/w/config.hcl", []byte(text), input)
		if f.Again([]byte(text), input) != nil {
			t.Errorf("a file with %s was used again", name)
		}
	}
}

// A caller may set what it gets, and the next one does not see it.
func TestAgainIsApart(t *testing.T) {
	t.Parallel()
	f := again(t, againText)
	input := againInput("/home/u", map[string]string{"TOKEN": "1", "IMAGE": "one"})
	for _, of := range []*File{f, f.Again([]byte(againText), input)} {
		first, _ := of.Options()
		first.Protected[0] = "/etc/passwd"
		first.Sandboxes["a"] = host.Definition{}
		delete(first.Engines, "mine")
		second, _ := f.Again([]byte(againText), input).Options()
		if second.Protected[0] != "/w/config.hcl" || second.Sandboxes["a"].Engine != "mine" || len(second.Engines) != 1 {
			t.Fatalf("the second caller gets what the first has set: %+v", second)
		}
	}
}
