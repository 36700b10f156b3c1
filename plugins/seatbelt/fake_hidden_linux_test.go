package seatbelt

import (
	"os"
	"path/filepath"
	"testing"
)

// An entry for a symbolic link hides what that leads to: the kernel knows the
// file by no other name.
func TestFakeHiddenLink(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	spec := f.spec()
	ws := spec.Table[0].Source
	if err := os.Symlink("keys/key", filepath.Join(ws, "alias")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(ws, filepath.Join(spec.Session.Dir, "ws")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"keys", "open"} {
		if err := os.Mkdir(filepath.Join(ws, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(ws, dir, "key"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec.Table = append(spec.Table, hidden(filepath.Join(ws, "alias")), hidden(filepath.Join(spec.Session.Dir, "ws/missing/file")))
	_, _, r := f.run(f.open(spec), command(spec, "true"))
	model, err := parseSBPL(r.Profile, r.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"keys/key": false, "alias": false, "missing/file": false, "open/key": true} {
		access := sbplAccess{Operation: "file-read-data", Path: filepath.Join(ws, path)}
		if got := model.Decide(asDocumented, access).Allow; got != want {
			t.Errorf("reading %s: %v", path, got)
		}
	}
}
