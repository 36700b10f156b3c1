package seatbelt

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// A pattern that leads through a link hides what the link leads to.
func TestPatternsThroughLinks(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(top+"/real[1]/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real[1]", top+"/link"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		top + "/link/key":       top + `/real\[1\]/key`,
		top + "/link/sub/**/x/": top + `/real\[1\]/sub/**/x/`,
		top + "/link":           top + `/real\[1\]`,
		top + "/link/new/*/y":   top + `/real\[1\]/new/*/y`,
		top + `/real\[1\]/**/x`: "",
		top + "/gone/x":         "",
		"**/x":                  "",
		"/**/x":                 "",
		top + "/[bad":           "",
	} {
		expected := []string{text}
		if want != "" {
			expected = append(expected, want)
		}
		if got := withTargets([]string{text}); !slices.Equal(got, expected) {
			t.Errorf("%s: %q, want %q", text, got, expected)
		}
	}
	// The system's own links are known without looking.
	w := modelled(t, shared.Spec{Filesystem: shared.FilesystemHost, Deny: []string{"/etc/secret", "/Var/db/*.key"}}, shared.Command{})
	for _, path := range []string{"/private/etc/secret", "/private/var/db/x.key"} {
		if w.file("file-read-data", path) {
			t.Errorf("%s can be read", path)
		}
	}
	if !w.file("file-read-data", "/private/etc/secrets") {
		t.Error("control")
	}
}
