package bwrap

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// A bubblewrap that knows sources by path alone is refused.
func TestOlderLauncher(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	options, err := json.Marshal(map[string]string{"path": swapsFirst(t, true, "")})
	if err != nil {
		t.Fatal(err)
	}
	spec := shared.Spec{Table: []shared.Entry{inside.BindRW(inside.Workspace(t))}, Options: options}
	if out, err := inside.TryRun(t, New(), spec, shared.Command{Args: []string{"/bin/true"}}); !errors.Is(err, shared.ErrUnusable) {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestSourceThatBecameALink(t *testing.T) {
	t.Parallel()
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/real/f", "f")
	if err := os.Symlink("real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/link/f", dir + "/absent"} {
		if f, err := mountplan.OpenSource(path); err == nil {
			f.Close()
			t.Errorf("%s was opened", path)
		}
	}
	f, err := mountplan.OpenSource(dir + "/real/f")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
