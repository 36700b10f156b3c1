//go:build linux

package cmdengine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestLookPath(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, perm := range map[string]os.FileMode{
		"one/tool": 0o755, "two/tool": 0o755, "one/plain": 0o644, "two/plain": 0o755, "one/only": 0o600,
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), nil, perm); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "one/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	one, two := filepath.Join(root, "one"), filepath.Join(root, "two")
	both := "PATH=" + one + ":" + two
	for name, test := range map[string]struct {
		name, dir string
		env       []string
		want      string
		kind      error
	}{
		"first":               {name: "tool", env: []string{both}, want: one + "/tool"},
		"executable ones":     {name: "plain", env: []string{both}, want: two + "/plain"},
		"not executable":      {name: "only", env: []string{both}, kind: shared.ErrNotExecutable},
		"a directory":         {name: "dir", env: []string{both}, kind: shared.ErrNotFound},
		"missing":             {name: "none", env: []string{both}, kind: shared.ErrNotFound},
		"relative elements":   {name: "tool", dir: one, env: []string{"PATH=.::../two:" + two}, want: two + "/tool"},
		"only relative":       {name: "tool", dir: one, env: []string{"PATH=.::../two:"}, kind: shared.ErrNotFound},
		"the first PATH":      {name: "tool", env: []string{"PATH=" + two, both}, want: two + "/tool"},
		"no PATH":             {name: "sh", kind: shared.ErrNotFound},
		"relative to dir":     {name: "./tool", dir: one, want: one + "/tool"},
		"up from dir":         {name: "../two/tool", dir: one, want: two + "/tool"},
		"absolute":            {name: two + "/tool", dir: one, want: two + "/tool"},
		"absolute, not there": {name: two + "/none", kind: shared.ErrNotFound},
		"empty":               {name: "", dir: one, env: []string{both}, kind: shared.ErrNotFound},
	} {
		got, err := LookPath(test.name, test.dir, test.env)
		if got != test.want || (test.kind == nil) != (err == nil) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if test.kind != nil {
			wantError(t, err, test.kind)
		}
	}
}

func FuzzLookPath(f *testing.F) {
	f.Add("sh", "/", "/bin:/usr/bin")
	f.Add("sh", "/bin", ".:")
	f.Add("./sh", "/bin", "")
	f.Add("..", "/bin", "/usr")
	f.Add("a/../../bin/sh", "/usr", "::")
	f.Fuzz(func(t *testing.T, name, dir, path string) {
		dir = "/" + dir
		got, err := LookPath(name, dir, []string{"PATH=" + path})
		if err != nil {
			if got != "" {
				t.Errorf("%q beside %v", got, err)
			}
			return
		}
		if !filepath.IsAbs(got) {
			t.Errorf("%q is not absolute", got)
		}
		if strings.Contains(name, "/") {
			return
		}
		for element := range strings.SplitSeq(path, ":") {
			if filepath.IsAbs(element) && filepath.Join(element, name) == got {
				return
			}
		}
		t.Errorf("%q is from no absolute element of %q", got, path)
	})
}
