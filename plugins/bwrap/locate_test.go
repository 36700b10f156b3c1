package bwrap

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	make := func(name string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := make("good", 0o755)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("good", link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{good, link} {
		if got, err := locate(p); err != nil || got != good {
			t.Errorf("locate(%q) = %q, %v", p, got, err)
		}
	}
	for _, tt := range []struct{ path, want string }{
		{make("world", 0o757), "writable by its group or by others"},
		{make("data", 0o644), "not executable"},
		{make("setuid", 0o755|os.ModeSetuid), "setuid"},
		{dir, "is a directory"},
		{filepath.Join(dir, "absent"), "no bubblewrap"},
	} {
		_, err := locate(tt.path)
		e, ok := errors.AsType[*shared.Error](err)
		if !ok || !errors.Is(err, shared.ErrUnavailable) || !strings.Contains(e.Message, tt.want) || e.Hint == "" || e.Attribute != "config.path" {
			t.Errorf("locate(%q): %v, want %q", tt.path, err, tt.want)
		}
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := locate(make("open/bwrap", 0o755)); err == nil || !strings.Contains(err.Error(), "others, who can replace what lies in it") {
		t.Errorf("in an open directory: %v", err)
	}
	if os.Geteuid() == 0 {
		other := make("other", 0o755)
		if err := os.Chown(other, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := locate(other); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("of another user: %v", err)
		}
	}
}

func TestParsePath(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{"": "", "{}": "", "null": "", `{"path":"/x/bwrap"}`: "/x/bwrap", `{"path":null}`: ""} {
		if path, err := parsePath(json.RawMessage(raw)); err != nil || path != want {
			t.Errorf("%s: %q, %v", raw, path, err)
		}
	}
	for raw, attribute := range map[string]string{
		`[]`: "config", `{"path":3}`: "config.path", `{"path":"bwrap"}`: "config.path", `{"path":""}`: "config.path",
		`{"path":"/x\u0000"}`: "config.path",
	} {
		_, err := parsePath(json.RawMessage(raw))
		if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != attribute || !errors.Is(err, shared.ErrInvalidSpec) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
