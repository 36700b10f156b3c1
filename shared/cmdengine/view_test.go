package cmdengine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestView(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"ws/a/b/c", "ws/tmp", "other", "odd,name", "bad\xff"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil && !strings.HasPrefix(dir, "bad") {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(top+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../other", top+"/ws/link"); err != nil {
		t.Fatal(err)
	}
	const ro, rw, tmpfs = shared.ReadOnly, shared.ReadWrite, shared.Private
	mount := func(source, destination string, kind shared.Access) shared.Entry {
		if source != "" {
			source = filepath.Join(top, source)
		}
		return shared.Entry{Source: source, Path: destination, Access: kind, Why: "origin " + destination}
	}
	for name, test := range map[string]struct {
		mounts []shared.Entry
		home   string
		hidden []string
		host   bool   // in the host's view
		want   string // SOURCE>DESTINATION, w if it is writable, or
		err    string // what was at fault
	}{
		"nothing":           {want: ">/tmp >/var/tmp"},
		"home":              {home: "/h", want: ">/h >/tmp >/var/tmp"},
		"taken":             {mounts: []shared.Entry{mount("other", "/tmp", rw)}, home: "/tmp", want: "other>/tmp,w >/var/tmp"},
		"order":             {mounts: []shared.Entry{mount("ws/a", "/x/a", ro), mount("", "/x", tmpfs)}, want: ">/tmp >/var/tmp >/x ws/a>/x/a"},
		"pinned":            {mounts: []shared.Entry{mount("ws", "/w", rw), mount("other", "/w/a/b/c", ro)}, want: ">/tmp >/var/tmp ws>/w,w ws/a>/w/a,w ws/a/b>/w/a/b,w other>/w/a/b/c"},
		"pinned by another": {mounts: []shared.Entry{mount("ws", "/w", rw), mount("other", "/w/a/b/c", ro), mount("ws/a", "/w/a", ro)}, want: ">/tmp >/var/tmp ws>/w,w ws/a>/w/a other>/w/a/b/c"},
		"in the root":       {mounts: []shared.Entry{mount("ws", "/", rw), mount("other", "/a/b", ro)}, want: "ws>/,w ws/a>/a,w other>/a/b >/tmp >/var/tmp"},
		"in read-only":      {mounts: []shared.Entry{mount("ws", "/w", ro), mount("other", "/w/a/b/c", rw)}, want: ">/tmp >/var/tmp ws>/w other>/w/a/b/c,w"},
		"a name's beginning": {mounts: []shared.Entry{mount("ws", "/w", rw), mount("other", "/wa/b", ro)},
			want: ">/tmp >/var/tmp ws>/w,w other>/wa/b"},
		"hidden": {mounts: []shared.Entry{mount("ws", "/w", rw)}, hidden: []string{"/w/a/b", "/w/none/x", "/etc/x", "/w/link/y", "/w/link"},
			want: ">/etc/x,h >/tmp >/var/tmp ws>/w,w ws/a>/w/a,w >/w/a/b,h >/w/link,h"},
		"hidden in the hidden": {mounts: []shared.Entry{mount("ws", "/w", rw), mount("other", "/w/a/b", ro)}, hidden: []string{"/w/a", "/w/a/x!", "/w/a/b/c"},
			want: ">/tmp >/var/tmp ws>/w,w >/w/a,h other>/w/a/b"},
		"not there to be hidden":       {mounts: []shared.Entry{mount("ws", "/w", rw)}, hidden: []string{"/w/none!"}, err: "hidden /w/none!"},
		"hidden in the host's view":    {host: true, hidden: []string{"/etc", top + "/none"}, want: ">/etc,h >/tmp >/var/tmp"},
		"not there in the host's view": {host: true, hidden: []string{"/etc", top + "/none!"}, err: "hidden " + top + "/none!"},
		"ignored":                      {mounts: []shared.Entry{{Path: "/x", Source: top + "/none", Access: rw, Missing: shared.MissingIgnore}}, want: ">/tmp >/var/tmp"},
		"held":                         {mounts: []shared.Entry{{Path: "/x", Source: top + "/none", Access: ro, Missing: shared.MissingHold, Why: "held"}}, err: "held"},
		"a file on a directory":        {mounts: []shared.Entry{mount("ws", "/w", ro), mount("file", "/w/a", ro)}, err: "origin /w/a"},
		"missing":                      {mounts: []shared.Entry{mount("none", "/x", ro)}, err: "origin /x"},
		"a symlink":                    {mounts: []shared.Entry{mount("ws/link", "/x", ro)}, err: "origin /x"},
		"a destination missing":        {mounts: []shared.Entry{mount("ws", "/w", ro), mount("other", "/w/none", ro)}, err: "origin /w/none"},
		"a destination elsewhere":      {mounts: []shared.Entry{mount("ws", "/w", ro), mount("ws/a", "/w/link", ro)}, err: "origin /w/link"},
		"an odd source":                {mounts: []shared.Entry{mount("odd,name", "/x", ro)}, err: "origin /x"},
		"an odd destination":           {mounts: []shared.Entry{mount("ws", "/x:y", ro)}, err: "origin /x:y"},
		"a destination in no text":     {mounts: []shared.Entry{mount("ws", "/x\xff", ro)}, err: "origin /x\xff"},
		"an odd home":                  {home: "/a,b", err: "home"},
		"an odd hidden path":           {hidden: []string{"/a:b"}, err: "hidden /a:b"},
	} {
		spec := shared.Spec{Table: test.mounts, Home: test.home}
		if test.host {
			spec.Filesystem = shared.FilesystemHost
		}
		for _, path := range test.hidden {
			e := shared.Entry{Path: path, Missing: shared.MissingIgnore, Why: "hidden " + path}
			if must, ok := strings.CutSuffix(path, "!"); ok {
				e.Path, e.Missing = must, shared.MissingRefuse
			}
			spec.Table = append(spec.Table, e)
		}
		view, err := View(&spec, ":,")
		var e *shared.Error
		if test.err != "" {
			if !errors.As(err, &e) || !errors.Is(err, shared.ErrInvalidSpec) || e.Attribute != test.err {
				t.Errorf("%s: %v, %v", name, view, err)
			}
			continue
		}
		var got []string
		for _, m := range view {
			word := strings.TrimPrefix(m.Source, top+"/") + ">" + m.Path
			switch m.Access {
			case rw:
				word += ",w"
			case shared.Hidden:
				word += ",h"
			}
			if m.Access.Shows() != (m.Source != "") || m.Why == "" {
				t.Errorf("%s: %+v", name, m)
			}
			got = append(got, word)
		}
		if text := strings.Join(got, " "); err != nil || text != test.want {
			t.Errorf("%s: got %s, %v; want %s", name, text, err, test.want)
		}
	}
}

func TestEnviron(t *testing.T) {
	t.Setenv("CMDENGINE_TEST_HAS", "a=b")
	if got, want := Environ("A=", "CMDENGINE_TEST_HAS", "CMDENGINE_TEST_HAS_NOT"), []string{"A=", "CMDENGINE_TEST_HAS=a=b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if Environ() == nil {
		t.Error("nil is no environment but the engine's")
	}
}

func TestTrial(t *testing.T) {
	t.Parallel()
	ask := func(ctx context.Context, script string) (shared.Probe, error) {
		return Trial("the fix", []string{"A=1"}, "/bin/sh", "-c", script)(ctx)
	}
	if p, err := ask(t.Context(), `test "$A" = 1 && test -z "$HOME"`); err != nil || !p.Ready || p.Reason != "" {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := ask(t.Context(), "echo because >&2; exit 3"); err != nil || p.Ready || !strings.Contains(p.Reason, "because") || !strings.Contains(p.Reason, "3") || p.Fix != "the fix" {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := Trial("install it", nil, "/no/such/launcher")(t.Context()); err != nil || p.Ready || !strings.Contains(p.Reason, "/no/such/launcher") {
		t.Errorf("got %+v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(ctx, "exit 0"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
