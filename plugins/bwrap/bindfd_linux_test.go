package bwrap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// A bubblewrap without --bind-fd is found out by its first refusal, and works.
func TestOlderLauncher(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	real, err := locate("")
	if err != nil {
		t.Fatal(err)
	}
	dir, ws := inside.Workspace(t), inside.Workspace(t)
	launcher := filepath.Join(dir, "bwrap")
	script := `#!/bin/sh
PATH=/usr/bin:/bin; cat <&3 > ` + dir + `/words.$$
if tr '\0' '\n' < ` + dir + `/words.$$ | grep -qe -bind-fd; then
	echo asked >> ` + dir + `/asked
	echo 'bwrap: Unknown option --bind-fd' >&2
	exit 1
fi
exec 3< ` + dir + `/words.$$ ` + real + ` "$@"
`
	if err := programs.Write(launcher, []byte(script)); err != nil {
		t.Fatal(err)
	}
	options, err := json.Marshal(map[string]string{"path": launcher})
	if err != nil {
		t.Fatal(err)
	}
	e := New()
	spec := shared.Spec{Table: []shared.Entry{inside.BindRW(ws)}, Options: options}
	for i := range 3 {
		out, err := inside.TryRun(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "echo $0 >> " + ws + "/f; cat " + ws + "/f", strings.Repeat("x", i)}})
		if err != nil || strings.Count(out.Stdout, "\n") != i+1 {
			t.Fatalf("%d: %+v, %v", i, out, err)
		}
	}
	if b, _ := os.ReadFile(dir + "/asked"); string(b) != "asked\n" {
		t.Errorf("it was asked %q", b)
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
