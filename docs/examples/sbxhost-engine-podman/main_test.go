package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestWords(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ws/.git/hooks", "shown", "a,b"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("shown", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	ws := shared.Entry{Source: dir + "/ws", Path: "/ws", Access: shared.ReadWrite, Why: "workspace"}
	shown := func(name, destination string) shared.Spec {
		return shared.Spec{Table: []shared.Entry{ws, {Source: dir + "/" + name, Path: destination, Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	}
	bind := func(name, destination, rest string) string {
		return "--mount=type=bind,source=" + dir + "/" + name + ",target=" + destination + rest
	}
	const rw, ro = ",ro=false,bind-nonrecursive=false", ",ro=true,bind-nonrecursive=true"
	for name, test := range map[string]struct {
		spec   shared.Spec
		hidden []string
		want   []string // among the words, or
		err    string   // the attribute at fault
	}{
		"nothing":        {want: []string{"--network=none", "--read-only", "--cap-drop=all", "--entrypoint=", "--preserve-fds=2", "--tmpfs=/tmp:exec,nosuid,nodev,size=1g,mode=1777,notmpcopyup"}},
		"network":        {spec: shared.Spec{Network: shared.Network{Mode: shared.NetworkHost}}, want: []string{"--network=host"}},
		"home":           {spec: shared.Spec{Home: "/home/me"}, want: []string{"--tmpfs=/home/me:exec,nosuid,nodev,size=1g,mode=1777,notmpcopyup"}},
		"mounts":         {spec: shown("shown", "/x y"), want: []string{bind("ws", "/ws", rw), bind("shown", "/x y", ro)}},
		"inside another": {spec: shown("ws/.git/hooks", "/ws/.git/hooks"), want: []string{bind("ws", "/ws", rw), bind("ws/.git", "/ws/.git", rw), bind("ws/.git/hooks", "/ws/.git/hooks", ro)}},
		"hidden":         {spec: shown("shown", "/x"), hidden: []string{"/ws/.git/hooks"}, want: []string{"--security-opt=mask=/sys", "--security-opt=mask=/ws/.git/hooks", bind("ws/.git", "/ws/.git", rw)}},
		"hidden around":  {spec: shown("shown", "/ws/.git/hooks"), hidden: []string{"/ws/.git"}, want: []string{"--tmpfs=/ws/.git:ro,nosuid,nodev,size=64k,notmpcopyup", bind("shown", "/ws/.git/hooks", ro)}},
		"a list":         {hidden: []string{"/a:/b"}, err: "deny_paths"},
		"an option more": {spec: shown("a,b", "/x"), err: "bind_paths[0]"},
		"not there":      {spec: shown("none", "/x"), err: "bind_paths[0]"},
		"a symlink":      {spec: shown("link", "/x"), err: "bind_paths[0]"},
		"a stub":         {spec: shown("shown", "/ws/new"), err: "bind_paths[0]"},
		"no image":       {spec: shared.Spec{Options: []byte(`{}`)}, err: "config.image"},
		"no options":     {spec: shared.Spec{Options: []byte("\x20")}, err: "config.image"},
	} {
		if test.spec.Options == nil {
			test.spec.Options = []byte(`{"image": "--privileged"}`)
		}
		for _, path := range test.hidden {
			test.spec.Table = append(test.spec.Table, shared.Entry{Path: path, Missing: shared.MissingIgnore, Why: "deny_paths"})
		}
		got, err := commandLine(&test.spec)
		var e *shared.Error
		switch {
		case test.err != "" && (!errors.As(err, &e) || e.Attribute != test.err || !errors.Is(err, shared.ErrInvalidSpec)):
			t.Errorf("%s: %v", name, err)
		case test.err == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.err == "":
			for _, word := range test.want {
				if !slices.Contains(got, word) {
					t.Errorf("%s: no %s in %q", name, word, got)
				}
			}
			if end := strings.Join(got[len(got)-2:], " "); end != "-- --privileged" {
				t.Errorf("%s: ends with %q", name, end)
			}
		}
	}
}
