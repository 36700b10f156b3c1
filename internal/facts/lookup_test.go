//go:build unix

package facts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxhost/sbxhost/internal/view"
)

// A link through what is missing, and back, leads to what is there: a command can make the rest.
func TestFollowBack(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	err = errors.Join(err, os.MkdirAll(top+"/d/e", 0o700), os.WriteFile(top+"/d/f", nil, 0o600), os.Symlink("d", top+"/l"))
	if err != nil {
		t.Fatal(err)
	}
	f := &lookup{ways: map[string]*view.Way{}}
	for i, tt := range []struct {
		target, in, end string
		kind            view.Kind
	}{
		{"none/../d", "", "d", view.Directory},
		{"none/../d", "f", "d/f", view.File},
		{"none/../l/f", "", "d/f", view.File},
		{"none/x/../../l", "e", "d/e", view.Directory},
		{"none/../l/new", "", "d/new", view.Absent},
		{"none/..", "d", "d", view.Directory},
		{"none/x/..", "d", "none/d", view.Absent},
	} {
		link := filepath.Join(top, string(rune('A'+i)))
		if err := os.Symlink(tt.target, link); err != nil {
			t.Fatal(err)
		}
		if way := f.Follow(filepath.Join(link, tt.in)); way.End != filepath.Join(top, tt.end) || way.Kind != tt.kind || way.Err != nil {
			t.Errorf("%q and %q: %+v", tt.target, tt.in, way)
		}
	}
}
