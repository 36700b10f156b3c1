package seatbelt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// What is hidden through a link hides what the link leads to.
func TestHiddenThroughLinks(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(top+"/real/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", top+"/link"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/link/key": "/real/key", "/link/sub/x/": "/real/sub/x", "/link": "/real", "/link/new/y": "/real/new/y", "/real/x": "", "/gone/x": "",
	} {
		got := withHiddenTargets([]shared.Entry{hidden(top + path)}, leadsTo)[1:]
		if want == "" && len(got) == 0 || len(got) == 1 && got[0].Path == top+want {
			continue
		}
		t.Errorf("%s: %v, want %q", path, got, want)
	}
}
