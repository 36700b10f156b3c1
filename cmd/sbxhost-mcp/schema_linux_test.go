package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// What sbxhost exec writes is valid by docs/result.schema.json. The test is here since the
// validator is of no use to who embeds package host.
func TestResultsAreValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	resolved := func(ref string) *jsonschema.Resolved {
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		s.Ref = ref
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	result, event := resolved("#/$defs/result"), resolved("#/$defs/event")
	path := program(t)
	b := newBench(t, plain+`
sandbox "names" {
  engine  = "native"
  network = ["example.invalid"]
  limits {
    pids    = 100
    enforce = "best_effort"
  }
}`)
	kinds := map[string]bool{}
	for _, args := range [][]string{
		{"true"}, {"sh", "-c", "exit 3"}, {"sh", "-c", "kill $$"}, {"-timeout", "300ms", "sleep", "100"}, {"no-such-command"}, {"-sandbox", "none", "true"}, {"-C", "/", "true"},
		{"sh", "-c", "git init -q r && echo >.envrc; cat /etc/shadow " + b.config}, {"-sandbox", "names", "sh", "-c", "getent hosts refused.example; exit 1"},
	} {
		dir := t.TempDir()
		cmd := exec.Command(filepath.Join(filepath.Dir(path), "sbxhost"), append([]string{"exec", "-config", b.config, "-sandbox", "fast", "-result", dir + "/r", "-events", dir + "/e"}, args...)...)
		cmd.Dir, cmd.Env = b.work, b.caller.Environ
		out, _ := cmd.CombinedOutput() // the result tells
		check := func(what string, schema *jsonschema.Resolved, text []byte) (value map[string]any) {
			t.Helper()
			if err := json.Unmarshal(text, &value); err != nil {
				t.Fatalf("%q: %s: %v, %s", args, what, err, out)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%q: %s: %v\n%s", args, what, err, text)
			}
			return value
		}
		one, _ := os.ReadFile(dir + "/r")
		check("the result", result, one)
		lines, _ := os.ReadFile(dir + "/e")
		for line := range bytes.Lines(lines) {
			kinds[check("an event", event, line)["event"].(string)] = true
		}
	}
	for _, kind := range []string{"decided", "started", "limit", "network", "ended"} {
		if !kinds[kind] {
			t.Errorf("no command had the event %s", kind)
		}
	}
	var wrong map[string]any
	if err := json.Unmarshal([]byte(`{"version": 2}`), &wrong); err != nil || result.Validate(wrong) == nil || event.Validate(wrong) == nil {
		t.Error("the schema takes anything")
	}
}
