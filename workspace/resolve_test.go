package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fixture is a workspace among other directories.
type fixture struct {
	base, root, outside, readonly, writable, home, alias string
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	// Not below /tmp, where the alias would take whatever is no root.
	base, err := os.MkdirTemp("/var/tmp", "workspace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if base, err = filepath.EvalSymlinks(base); err != nil {
		t.Fatal(err)
	}
	f := fixture{
		base: base, root: base + "/proj", outside: base + "/outside", readonly: base + "/ro",
		writable: base + "/rw", home: base + "/home", alias: base + "/scratch/tmp",
	}
	tree(t, base, map[string]string{
		"proj/file":        "inside",
		"proj/dir/file":    "inside",
		"proj/vendor/lib":  "vendored",
		"proj-evil/file":   "secret",
		"outside/file":     "secret",
		"outside/dir/file": "secret",
		"ro/file":          "read-only",
		"rw/file":          "writable",
		"home/file":        "secret",
		"home/tools":       "-> ../ro",
		"scratch/tmp/d":    "dir",
		"scratch/tmp/up":   "-> ..",
		"proj/in":          "-> dir",
		"proj/out":         "-> ../outside",
		"proj/out-abs":     "-> " + base + "/outside",
		"proj/back":        "-> ../outside/home",
		"outside/home":     "-> ../proj/dir",
		"proj/dots":        "-> dir/../../outside",
	})
	return f
}

func (f fixture) options() Options {
	return Options{
		Root: f.root, Readable: []string{f.readonly, "vendor"}, Writable: []string{f.writable},
		Home: f.home, TempAlias: f.alias,
	}
}

func check(t *testing.T, op, got string, err error, want string, wantErr error) {
	t.Helper()
	switch {
	case wantErr != nil:
		if !errors.Is(err, wantErr) || got != "" {
			t.Errorf("%s: got %q, %v; want error %v", op, got, err, wantErr)
		}
		if err != nil && !strconv.CanBackquote(err.Error()) {
			t.Errorf("%s: error text %q holds bytes of the path unquoted", op, err)
		}
	case err != nil || got != want:
		t.Errorf("%s: got %q, %v; want %q", op, got, err, want)
	}
}

func TestResolveDir(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := mustNew(t, f.options())
	before := len(w.Roots())
	for _, tt := range []struct {
		dir, want string
		err       error
	}{
		{dir: "", want: f.root},
		{dir: ".", want: f.root},
		{dir: f.root, want: f.root},
		{dir: "dir", want: f.root + "/dir"},
		{dir: f.root + "//dir/", want: f.root + "/dir"},
		{dir: "in", want: f.root + "/dir"},
		{dir: "in/..", want: f.root},
		{dir: "../proj/dir", want: f.root + "/dir"},
		{dir: "back", want: f.root + "/dir"},
		{dir: f.readonly, want: f.readonly},
		{dir: "~/tools", want: f.readonly},
		{dir: "~/../proj", want: f.root},
		{dir: "/tmp", want: f.alias},
		{dir: "/tmp/d", want: f.alias + "/d"},
		{dir: "/tmp/d/../d", want: f.alias + "/d"},
		{dir: f.alias + "/d", want: f.alias + "/d"},
		{dir: "file", err: syscall.ENOTDIR},
		{dir: "new", err: fs.ErrNotExist},
		{dir: "out", err: ErrOutside},
		{dir: "out-abs/dir", err: ErrOutside},
		{dir: "out/../outside", err: ErrOutside},
		{dir: "dots", err: ErrOutside},
		{dir: "..", err: ErrOutside},
		{dir: strings.Repeat("../", 64) + "etc", err: ErrOutside},
		{dir: "/", err: ErrOutside},
		{dir: "/etc/passwd", err: ErrOutside}, // not what it is
		{dir: "~", err: ErrOutside},
		{dir: "~//etc", err: fs.ErrNotExist},
		{dir: f.root + "-evil", err: ErrOutside},
		{dir: "/tmp/../etc", err: ErrOutside},
		{dir: "/tmp/up", err: ErrOutside},
		{dir: "/tmp/new", err: fs.ErrNotExist},
		{dir: "a\x00b", err: fs.ErrInvalid},
	} {
		got, err := w.ResolveDir(tt.dir)
		check(t, tt.dir, got, err, tt.want, tt.err)
	}
	if len(w.Roots()) != before {
		t.Error("a working directory became a root")
	}
	if got, err := new(Workspace).ResolveDir("/"); !errors.Is(err, ErrOutside) {
		t.Errorf("without roots: %q, %v", got, err)
	}
}

// A root below the host's /tmp keeps its paths, in both spellings; what is
// beside it is the alias.
func TestAliasAndRootUnderTmp(t *testing.T) {
	t.Parallel()
	tmp, err := os.MkdirTemp("/tmp", "workspace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	scratch := tempDir(t)
	rel := strings.TrimPrefix(tmp, "/tmp/")
	tree(t, tmp, map[string]string{"proj/dir": "dir", "link": "-> proj", "beside": "dir"})
	tree(t, scratch, map[string]string{rel + "/beside": "dir", "other": "dir"})
	resolved, err := filepath.EvalSymlinks(tmp)
	if err != nil {
		t.Fatal(err)
	}
	w := mustNew(t, Options{Root: tmp + "/link", TempAlias: scratch})
	for path, want := range map[string]string{
		tmp + "/proj/dir":               resolved + "/proj/dir",
		tmp + "/link/dir":               resolved + "/proj/dir",
		"dir":                           resolved + "/proj/dir",
		tmp + "/beside":                 scratch + "/" + rel + "/beside",
		tmp + "/proj/../beside":         scratch + "/" + rel + "/beside",
		"/tmp/../tmp/" + rel + "/link/": resolved + "/proj",
		"/tmp/other":                    scratch + "/other",
	} {
		if got, err := w.ResolveDir(path); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", path, got, err, want)
		}
	}
	// Without the alias, the host's /tmp is outside.
	w = mustNew(t, Options{Root: tmp + "/proj"})
	if got, err := w.ResolveDir(tmp + "/beside"); !errors.Is(err, ErrOutside) {
		t.Errorf("no alias: got %q, %v", got, err)
	}
}

// The scratch directory may be made after New.
func TestAliasMadeLater(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"proj": "dir", "cache": "dir", "link": "-> cache"})
	w := mustNew(t, Options{Root: base + "/proj", TempAlias: base + "/link/s/tmp"})
	if want := base + "/cache/s/tmp"; w.TempAlias() != want {
		t.Errorf("before: %q; want %q", w.TempAlias(), want)
	}
	tree(t, base, map[string]string{"cache/s/tmp/x": "dir"})
	if got, err := w.ResolveDir("/tmp/x"); got != base+"/cache/s/tmp/x" || err != nil {
		t.Errorf("after: %q, %v", got, err)
	}
}
