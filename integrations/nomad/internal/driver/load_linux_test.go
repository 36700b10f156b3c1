package driver

import (
	"os"
	"path/filepath"
	"testing"
)

// A task's host has one definition, and must know where commands of all of them write.
func TestLoadKnowsAllWritableBinds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sbx.hcl")
	text := `
sandbox "a" {}
sandbox "b" {
  bind_paths = [{ host = "/srv/b", read_only = false }]
}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, options, err := load(agentConfig{Definitions: file, Sandboxes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if list := options.OtherBinds; len(list) != 1 || list[0].Host != "/srv/b" || !list[0].Writable {
		t.Errorf("other binds: %+v", list)
	}
}
