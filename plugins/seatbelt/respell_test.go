package seatbelt

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		top + "/link/key":       top + `/real\[1]/key`,
		top + "/link/sub/**/x/": top + `/real\[1]/sub/**/x/`,
		top + "/link":           top + `/real\[1]`,
		top + "/link/new/*/y":   top + `/real\[1]/new/*/y`,
		top + `/real\[1]/**/x`:  "",
		top + "/gone/x":         "",
		"**/x":                  "",
		"/**/x":                 "",
		top + "/[bad":           "",
	} {
		expected := []string{text}
		if want != "" {
			expected = append(expected, want)
		}
		if got, err := withTargets("deny_paths", []string{text}); !slices.Equal(got, expected) || err != nil {
			t.Errorf("%s: %q, %v, want %q", text, got, err, expected)
		}
	}
	deep := top + strings.Repeat("/d", 70)
	if err := errors.Join(os.MkdirAll(deep, 0o700), os.Symlink(deep, top+"/down")); err != nil {
		t.Fatal(err)
	}
	if got, err := withTargets("deny_paths", []string{top + "/down/key"}); err == nil {
		t.Errorf("a link to where no pattern reaches: %q", got)
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
