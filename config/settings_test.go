package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	f, diags := Parse("/etc/sbx/config.hcl", []byte(`workspace {
  readable = ["/opt"]
}
approvals {
  mode = "deny"
}
audit {
  path = "/var/log/sbx.jsonl"
}
sandbox "a" {
  engine = "bwrap"
  env    = { TOKEN = "hunter2" }
  bind_paths = ["/data", { host = "/x", container = "/y", read_only = false }]
  limits {
    memory = "96MiB"
  }
}
sandbox "b" {
  network = true
}
sandbox "c" {
  network = [
    "a.example",

    "b.example:22 private",
  ]
}
sandbox "d" {
  network = concat(["a.example"],
    ["b.example"])
}
`), testInput())
	o, _ := f.Options()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for sandbox, wants := range map[string][]string{
		"a": {"engine bwrap 11", "fallback deny 0", "network false 0", "bind_paths [/data, /x as /y (writable)] 13", "env [TOKEN] 12", "limits.memory 96MiB 15",
			"limits.grace 5s 0", "workspace.readable [/opt] 2", "approvals.mode deny 5", "audit.path /var/log/sbx.jsonl 8"},
		"b": {"engine auto 0", "fallback approve 0", "network true 19", "approvals.mode deny 5"},
		"c": {"network [a.example, b.example:22 private] 22\nnetwork[0] a.example 23\nnetwork[1] b.example:22 private 25\nhost_ports [] 0"},
		"d": {"network [a.example, b.example] 29\nnetwork[0] a.example 29\nnetwork[1] b.example 29"},
	} {
		var got []string
		for _, s := range f.Settings(sandbox, o, shared.OptionSchema{}) {
			got = append(got, fmt.Sprintf("%s %s %d", s.Attribute, s.Value, s.Line))
		}
		text := strings.Join(got, "\n") + "\n"
		for _, want := range wants {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("%s lacks %q:\n%s", sandbox, want, text)
			}
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("a value is shown:\n%s", text)
		}
	}
	builtin, _ := Load("", testInput())
	o, _ = builtin.Options()
	for _, s := range builtin.Settings("default", o, shared.OptionSchema{}) {
		if s.Line != 0 {
			t.Errorf("built in: %+v", s)
		}
	}
}

// No attribute of the language, and no option of an engine, is left out of what
// holds: set or not.
func TestSettingsAreAll(t *testing.T) {
	t.Parallel()
	schema := shared.OptionSchema{
		Attributes: []shared.OptionAttribute{{Name: "image", Type: shared.OptionString}, {Name: "pull", Type: shared.OptionString, Default: []byte(`"missing"`)},
			{Name: "ttl", Type: shared.OptionString}},
	}
	f, diags := Parse("/etc/sbx/config.hcl", []byte(`sandbox "a" {
  engine             = "mine.two"
  network            = ["registry.npmjs.org"]
  credentials        = ["npm.two"]
  config {
    image = "debian"

    ttl = "${env.TOKEN}h"

  }
}
engine "mine.two" {
  source = "/opt/engine"
  env    = ["TOKEN"]
}
credential "npm.two" {
  hosts = ["registry.npmjs.org"]
  value = "Bearer ${env.TOKEN}"
}
engine "other" {
  source = "/opt/other"
}
workspace {
  temp = true
}
audit {
  path = "/var/log/sbx.jsonl"
}
`), EvalInput{LookupEnv: func(string) (string, bool) { return "hunter2", true }})
	o, _ := f.Options()
	raw, more := f.EngineOptions("a", schema)
	if diags = append(diags, more...); diags.HasErrors() {
		t.Fatal(diags)
	}
	def := o.Sandboxes["a"]
	def.Config = raw
	o.Sandboxes["a"] = def
	got := map[string]string{}
	for _, s := range f.Settings("a", o, schema) {
		if _, twice := got[s.Attribute]; twice || s.Value == "" || strings.Contains(s.Value, "hunter2") {
			t.Errorf("%+v", s)
		}
		got[s.Attribute] = fmt.Sprint(s.Value, " ", s.Line)
	}
	for block, name := range Reference {
		switch block {
		case "", "sandbox":
		case "bind_paths":
			continue // parts of one value
		case "engine":
			name = "engine.mine.two." + name
		case "credential":
			name = "credential.npm.two." + name
		default:
			name = block + "." + name
		}
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	for attribute, want := range map[string]string{
		"config.image": "debian 6", "config.pull": "missing 0", "config.ttl": "not shown, because it comes from a variable 8",
		"engine.mine.two.source": "/opt/engine 13", "engine.mine.two.env": "[TOKEN] 14",
		"engine.mine.two.sha256": "[] 0", "workspace.temp": "true 24", "workspace.toolchains": "false 0", "limits.memory": "none 0",
		"protect_paths": "[] 0", "credential.npm.two.hosts": "[registry.npmjs.org] 17", "credential.npm.two.value": "not shown, because it is secret 18", "default_sandbox": "a 0", "engine.other.source": "",
	} {
		if got[attribute] != want {
			t.Errorf("%s is %q, not %q", attribute, got[attribute], want)
		}
	}
}

// CI systems set the secrets that a run must not have to the empty string.
func TestEmptyCredentialIsUnset(t *testing.T) {
	t.Parallel()
	for _, set := range []bool{false, true} {
		f, diags := Parse("/etc/sbx/config.hcl", []byte(`
sandbox "plain" {
  engine = "native"
}
credential "c" {
  hosts = ["a.example"]
  value = "Bearer ${env.TOKEN}"
}
credential "passed" {
  value = "Bearer ${env.TOKEN}"
  pass  = true
}
`), EvalInput{LookupEnv: func(string) (string, bool) { return "", set }})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		o, err := f.Options()
		if err != nil || o.Credentials["c"].Value != "" || o.Credentials["passed"].Value != "" {
			t.Errorf("set %v: %v, %#v", set, err, o.Credentials)
		}
	}
}
