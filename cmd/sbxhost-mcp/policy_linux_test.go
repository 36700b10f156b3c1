package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
)

func TestDenialsComeWithTheirFix(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	secret := filepath.Dir(b.work) + "/other/secret"
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := b.client(t)
	out := c.run(map[string]any{"command": []string{"cat", secret}})
	want := host.Denial{Path: secret, Attribute: "bind_paths", Change: fmt.Sprintf("add %q to bind_paths", secret), At: b.config + ":2"}
	same := func(list []host.Denial) bool {
		return len(list) == 1 && list[0].Path == want.Path && list[0].Attribute == want.Attribute && list[0].Change == want.Change && strings.HasPrefix(list[0].At, b.config+":")
	}
	if !same(out.Denials) {
		t.Errorf("%+v", out.Denials)
	}
	for _, arguments := range []map[string]any{{"id": out.ID}, {"path": secret}, {"path": secret, "operation": "execute", "directory": "sub"}} {
		if got, refusal := call[denialResult](c, "explain_denial", arguments); refusal != "" || !same(got.Denials) {
			t.Errorf("%v: %+v, %s", arguments, got, refusal)
		}
	}
	if got, refusal := call[denialResult](c, "explain_denial", map[string]any{"path": b.work + "/sub"}); refusal != "" || len(got.Denials) > 0 {
		t.Errorf("of what is shown: %+v, %s", got, refusal)
	}
	for name, want := range map[string]string{"a.example": "a.example:443", "a.example:22": "a.example:22", "192.0.2.1": "192.0.2.1:443", "[2001:db8::1]": "[2001:db8::1]:443"} {
		if got, refusal := call[denialResult](c, "explain_denial", map[string]any{"host": name}); refusal != "" || len(got.Denials) != 1 || got.Denials[0].Host != want || got.Denials[0].Attribute != "network" {
			t.Errorf("%s: %+v, %s", name, got, refusal)
		}
	}
	for _, arguments := range []map[string]any{{"host": "a:b"}, {"host": "https://a.example/"}, {"host": "a.example", "operation": "read"}, {"host": "a.example", "path": secret}, {}} {
		if got, refusal := call[denialResult](c, "explain_denial", arguments); !strings.Contains(refusal, "host: give ") {
			t.Errorf("%v: %+v, %s", arguments, got, refusal)
		}
	}
	if got, refusal := call[denialResult](c, "explain_denial", map[string]any{"path": "/usr/bin/env", "operation": "write"}); refusal != "" || len(got.Denials) != 1 {
		t.Errorf("of what is read-only: %+v, %s", got, refusal)
	}
}

// What the user forbids meanwhile, an agent does not go on with.
func TestChangedConfiguration(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	c := b.client(t)
	c.run(script("true"))
	text, err := os.ReadFile(b.config)
	if err == nil {
		err = os.WriteFile(b.config, append(text, "# more\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, refusal := call[runResult](c, "run", script("true")); !strings.Contains(refusal, "has changed since this server started") {
		t.Errorf("run: %q", refusal)
	}
	if err := os.WriteFile(b.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(script("true"))
}

// No argument widens what the configuration gives.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
default_sandbox = "fast"
sandbox "fast" { engine = "native" }
sandbox "online" {
  engine  = "native"
  network = true
}
sandbox "open" { engine = "noop" }
`)
	outside := filepath.Dir(b.work) + "/other"
	for link, to := range map[string]string{"out": outside, "in": b.work + "/sub", "up": ".."} {
		if err := os.Symlink(to, b.work+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	c, other := b.client(t), b.client(t)
	theirs := other.run(map[string]any{"script": "sleep 1000", "background": true})
	for tool, cases := range map[string]map[string]map[string]any{
		"run": {
			"directory: ": {"script": "pwd", "directory": outside}, "directory:  ": {"script": "pwd", "directory": "../other"}, "directory:   ": {"script": "pwd", "directory": "out"},
			"directory:    ": {"script": "pwd", "directory": "up/other"}, "directory:     ": {"script": "pwd", "directory": "/"}, "directory:      ": {"script": "pwd", "directory": "no\x00such"}, "directory:       ": {"script": "pwd", "directory": strings.Repeat("a/", 5000)},
			"sandbox: ": {"script": "true", "sandbox": "online"}, "sandbox:  ": {"script": "true", "sandbox": "open"}, "sandbox:   ": {"script": "true", "sandbox": "none"},
			"timeout: ": {"script": "true", "timeout": -1}, "timeout:  ": {"script": "true", "timeout": 0}, "timeout:   ": {"script": "true", "timeout": 1e300},
			"command, script: ": {}, "command, script:  ": {"script": "true", "command": []string{"true"}},
			"network": {"script": "true", "network": true}, "env": {"script": "true", "env": []string{"LD_PRELOAD=x"}}, "no_sandbox": {"script": "true", "no_sandbox": true}, "config": {"script": "true", "config": "/tmp/x"},
			"invalid":   {"command": "true"},
			"not found": {"command": []string{"a\x01b"}}, "is not a string": nil,
		},
		"output":         {"id: ": {"id": theirs.ID + "0"}, "id:  ": {"id": "../c1"}, "offset": {"id": theirs.ID, "stdout_offset": -1}, "wait: ": {"id": theirs.ID, "wait": -1}},
		"stop":           {"id: ": {"id": ""}, "id:  ": {"id": theirs.ID}},
		"explain_denial": {"id, path, host: ": {}, "id: ": {"id": theirs.ID}, "path, operation: ": {"path": "relative"}, "path, operation:  ": {"path": "/x", "operation": "mount"}, "sandbox: ": {"path": "/x", "sandbox": "online"}},
		"review": {"action: ": {"action": "throw"}, "name:   ": {"action": "discard", "name": "x"}, "action:  ": {"action": "apply", "name": "x", "digest": "y"}, "name: ": {"action": "diff"}, "name:  ": {"action": "diff", "name": "nothing"},
			"directory: ": {"action": "list", "directory": outside}, "review name": {"action": "diff", "name": "../../x"}},
	} {
		for want, arguments := range cases {
			if arguments == nil {
				continue
			}
			if tool == "output" && strings.HasPrefix(want, "offset") || tool == "output" && strings.HasPrefix(want, "wait") {
				arguments["id"] = c.run(script("true")).ID
			}
			out, refusal := call[runResult](c, tool, arguments)
			if refusal == "" || strings.HasSuffix(want, ": ") && !strings.Contains(refusal, strings.TrimRight(want, " ")) {
				t.Errorf("%s %.200v: %.300q, %.300v", tool, arguments, refusal, out)
			}
		}
	}
	if out := c.run(map[string]any{"script": "pwd", "directory": "in"}); out.Stdout.Text != b.work+"/sub\n" {
		t.Errorf("a link within: %+v", out)
	}
	if still, refusal := call[runResult](other, "output", map[string]any{"id": theirs.ID}); refusal != "" || !still.Running {
		t.Errorf("the other's: %+v, %s", still, refusal)
	}
}

// What was approved, and what a definition falls back to, runs nothing without isolation.
func TestNothingRunsWithoutIsolation(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"noop by default": `sandbox "open" { engine = "noop" }`,
		"a fallback": `
approvals { mode = "always" }
engine "mine" { source = "/nonexistent/sbxhost-engine-mine" }
sandbox "mine" {
  engine   = "mine"
  fallback = "approve"
}`,
	} {
		b := newBench(t, text)
		p, err := newPolicy(t.Context(), b.caller, b.config, os.Stderr)
		if err != nil {
			continue // refused at once
		}
		s := newServer(t.Context(), p)
		j, err := s.start(t.Context(), runArguments{Script: "echo >" + b.work + "/ran"})
		if err == nil {
			<-j.done
			err = errors.New(j.report.Error)
			if j.report.Result != nil || j.report.Decision == "unsandboxed" {
				t.Errorf("%s: %+v", name, j.report)
			}
		}
		if _, there := os.Stat(b.work + "/ran"); there == nil || err == nil {
			t.Errorf("%s: it ran, %v", name, err)
		}
		s.close()
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	const two = `
sandbox "a" { engine = "native" }
sandbox "b" { engine = "native" }
`
	for name, tt := range map[string]struct{ text, refusal string }{
		"none is the default": {two, "no default_sandbox"},
		"a list":              {two + `mcp { sandboxes = ["b", "a"] }`, ""},
		"no directory":        {two + `mcp { sandboxes = ["b"], directories = ["nowhere"] }`, "configuration has errors"},
		"nowhere":             {two + "mcp {\n sandboxes = [\"b\"]\n directories = [\"nowhere\"]\n}", "mcp.directories"},
	} {
		b := newBench(t, tt.text)
		p, err := newPolicy(t.Context(), b.caller, b.config, os.Stderr)
		var told bytes.Buffer
		if err != nil {
			explainFailure(&told, err)
		}
		if (err != nil) != (tt.refusal != "") || !strings.Contains(told.String(), tt.refusal) {
			t.Errorf("%s: %s", name, &told)
		} else if err == nil && (p.sandboxes[0] != "b" || p.dir != b.work) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	b := newBench(t, two+"default_sandbox = \"a\"\nmcp {\n sandboxes = [\"b\", \"a\"]\n directories = [\"other\", \"work/sub\"]\n}\n")
	c := b.client(t)
	if out := c.run(script("pwd")); out.Sandbox != "a" || out.Stdout.Text != filepath.Dir(b.work)+"/other\n" {
		t.Errorf("%+v", out)
	}
	// A directory is a workspace of its own: nothing around it is shown.
	if out := c.run(map[string]any{"script": "echo x >y; ls ..; ls " + b.work, "sandbox": "b", "directory": b.work + "/sub"}); strings.Contains(out.Stdout.Text, "go") || out.Sandbox != "b" {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(b.work + "/sub/y"); err != nil {
		t.Error(err)
	}
	if _, refusal := call[runResult](c, "run", map[string]any{"script": "pwd", "directory": b.work}); !strings.Contains(refusal, "directory: ") {
		t.Errorf("around a workspace: %q", refusal)
	}
}

// A command of a workspace around another one puts a symlink in the place of that: it does not become a
// workspace that leads anywhere, neither for this connection nor for the next.
func TestWorkspaceInAnother(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		b := newBench(t, plain+"default_sandbox = \"fast\"\nmcp {\n directories = [\"work\", \"work/sub\"]\n}\n")
		secret := filepath.Dir(b.work) + "/other/secret"
		if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		top := b.work
		b.caller.Dir = top + "/sub"
		c := b.client(t)
		if used {
			c.run(script("true"))
		}
		c.run(map[string]any{"script": "mv sub away && ln -s ../other sub", "directory": top})
		out, refusal := call[runResult](c, "run", script("cat secret; echo more >>secret"))
		if refusal == "" || out.Stdout.Text != "" {
			t.Errorf("%v: %+v", used, out)
		}
		b.caller.Dir = top
		if _, err := newPolicy(t.Context(), b.caller, b.config, os.Stderr); err == nil || !strings.Contains(err.Error(), "mcp.directories: the symlink") {
			t.Errorf("the next connection: %v", err)
		}
		if text, err := os.ReadFile(secret); err != nil || string(text) != "x" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// Nor does the only workspace, if a definition shows commands what lies around it.
func TestWorkspaceRootThatACommandWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
default_sandbox = "fast"
workspace { root = "work/sub" }
sandbox "fast" {
  engine     = "native"
  bind_paths = [{ host = "work", container = "/around", read_only = false }]
}
`)
	if err := os.WriteFile(filepath.Dir(b.work)+"/other/secret", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, refusal := call[runResult](b.client(t), "run", script("cd /around && mv sub away && ln -s ../other sub")); refusal != "" || out.ExitCode == nil || *out.ExitCode != 0 {
		t.Fatalf("%s %+v", refusal, out)
	}
	if _, err := newPolicy(t.Context(), b.caller, b.config, os.Stderr); err == nil || !strings.Contains(err.Error(), "workspace.root: the symlink") {
		t.Errorf("the next connection: %v", err)
	}
}

// A configuration that lies in the workspace counts once its user has trusted it.
func TestFoundConfigurationMustBeTrusted(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain)
	if err := os.WriteFile(b.work+"/config.hcl", []byte(plain), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := newPolicy(t.Context(), b.caller, "", os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "you have not trusted it") {
		t.Fatal(err)
	}
	store, err := b.caller.Store()
	if err == nil {
		err = store.AddTrust(t.Context(), b.work+"/config.hcl", []byte(plain))
	}
	if err == nil {
		_, err = newPolicy(t.Context(), b.caller, "", os.Stderr)
	}
	if err != nil {
		t.Error(err)
	}
}
