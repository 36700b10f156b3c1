package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/source"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testInput is a machine that is the same everywhere.
func testInput() EvalInput {
	env := map[string]string{"SECRET": "hunter2", "BINARY": "\xff", "EMPTY": ""}
	return EvalInput{
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Home:      "/home/me",
		Root:      func() (string, error) { return "/src/project", nil },
		OS:        "linux",
		Arch:      "amd64",
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update rewrites it)\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

func render(t *testing.T, diags Diagnostics) string {
	t.Helper()
	var b strings.Builder
	for i, diag := range diags {
		fmt.Fprintf(&b, "# %s\n", diag.Subject) // which the text names by its line
		if err := source.Write(&b, diags[i:i+1], false, 80); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// Each file's diagnostics, or its options when there are none, are in the
// golden file beside it.
func TestParseGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/parse/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatal("no test files", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, diags := Parse("/etc/sbx/"+filepath.Base(path), src, testInput())
			out := render(t, diags)
			opts, again := f.Options()
			if diags.HasErrors() {
				if !again.HasErrors() || opts.Sandboxes != nil {
					t.Error("a file with errors gave options")
				}
			} else {
				shown := map[string]any{
					"default": opts.DefaultSandbox, "sandboxes": opts.Sandboxes, "workspace": opts.Workspace,
					"engines": opts.Engines, "protected": opts.Protected,
				}
				if a := opts.Approvals; a != (host.ApprovalOptions{}) {
					shown["approvals"] = map[string]any{"mode": a.Mode.String(), "by": a.ModeOrigin, "session_ttl": a.SessionTTL, "allow_bypass": a.AllowBypass}
				}
				if opts.Credentials != nil {
					shown["credentials"] = opts.Credentials
				}
				if opts.AuditLog != "" {
					shown["audit"] = opts.AuditLog
				}
				if m := f.MCP(); m.Apply || m.Sandboxes != nil || m.Directories != nil {
					shown["mcp"] = m
				}
				text, err := json.MarshalIndent(shown, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				out += string(text) + "\n"
			}
			if strings.Contains(out, "hunter2") && (diags.HasErrors() || opts.Credentials != nil) {
				t.Error("a variable's value is shown")
			}
			if strings.ContainsAny(out, "\x1b\x00\x07\r\u202e") {
				t.Error("a control character reaches the terminal")
			}
			golden(t, strings.TrimSuffix(path, ".hcl")+".golden", []byte(out))
		})
	}
}
