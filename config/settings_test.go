package config

import (
	"fmt"
	"strings"
	"testing"
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
    memory = "1KiB"
  }
}
sandbox "b" {
  network = true
}
`), testInput())
	o, _ := f.Options()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for sandbox, wants := range map[string][]string{
		"a": {"engine bwrap 11", "fallback deny 0", "network false 0", "bind_paths [/data, /x as /y (writable)] 13", "env [TOKEN] 12", "limits.memory 1024 15",
			"limits.grace 5s 0", "workspace.readable [/opt] 2", "approvals.mode deny 5", "approvals.session_ttl 6h0m0s 0", "audit.path /var/log/sbx.jsonl 8", "audit.keep 5 0"},
		"b": {"engine auto 0", "fallback approve 0", "network true 19", "approvals.mode deny 5"},
	} {
		var got []string
		for _, s := range f.Settings(sandbox, o) {
			got = append(got, fmt.Sprintf("%s %s %d", s.Attribute, s.Value, s.Line))
			if (s.File == "/etc/sbx/config.hcl") != (s.Line > 0) {
				t.Errorf("%+v", s)
			}
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
	for _, s := range builtin.Settings("default", o) {
		if s.Line != 0 {
			t.Errorf("built in: %+v", s)
		}
	}
}
