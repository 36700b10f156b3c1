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

// naive is the resolver that does not contain: what a tool does that joins,
// cleans and compares prefixes as text. Every escape below is also tried on it,
// to show that the test can fail.
func naive(root, path string) (string, bool) {
	p := path
	if !filepath.IsAbs(p) {
		p = filepath.Join(root, p)
	}
	p = filepath.Clean(p)
	return p, strings.HasPrefix(p, root)
}

// unchecked is the resolver that contains nothing at all.
func unchecked(root, path string) string {
	p, _ := naive(root, path)
	return p
}

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
		"proj/file":              "inside",
		"proj/dir/file":          "inside",
		"proj/vendor/lib":        "vendored",
		"proj-evil/file":         "secret",
		"outside/file":           "secret",
		"outside/dir/file":       "secret",
		"ro/file":                "read-only",
		"rw/file":                "writable",
		"home/file":              "secret",
		"home/tools":             "-> ../ro",
		"scratch/tmp/file":       "scratch",
		"scratch/file":           "secret",
		"scratch/tmp/loopback":   "-> /tmp/file",
		"scratch/tmp/up":         "-> ../file",
		"proj/in":                "-> dir",
		"proj/in-file":           "-> dir/file",
		"proj/out":               "-> ../outside",
		"proj/out-abs":           "-> " + base + "/outside",
		"proj/out-file":          "-> ../outside/file",
		"proj/dangling-out":      "-> ../outside/new",
		"proj/dangling-out-dir":  "-> ../outside/newdir/new",
		"proj/dangling-in":       "-> dir/new",
		"proj/dangling-ro":       "-> ../ro/new",
		"proj/chain1":            "-> chain2",
		"proj/chain2":            "-> dir/chain3",
		"proj/dir/chain3":        "-> ../../outside/file",
		"proj/back":              "-> ../outside/home",
		"outside/home":           "-> ../proj/dir",
		"proj/loop1":             "-> loop2",
		"proj/loop2":             "-> loop1",
		"proj/self":              "-> self",
		"proj/dots":              "-> dir/../../outside",
		"proj/dir/updir":         "-> ..",
		"proj/tmplink":           "-> /tmp/file",
		"proj/ro-link":           "-> ../ro",
		"proj/quo\"te\n-name":    "odd",
		"proj/bad\xffutf8":       "odd",
		"proj/.env":              "KEY=secret",
		"proj/.env.example":      "KEY=",
		"proj/notes":             "-> .env",
		"proj/hidden":            "-> notes",
		"proj/named/.env.local":  "-> ../file",
		"proj/.envrc":            "fine",
		"proj/venv/.env/bin/run": "fine",
	})
	return f
}

func (f fixture) options() Options {
	return Options{
		Root: f.root, Readable: []string{f.readonly, "vendor"}, Writable: []string{f.writable},
		Home: f.home, TempAlias: f.alias,
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := mustNew(t, f.options())
	long := strings.Repeat("n", 255)
	outside, readonly := ErrOutside, ErrReadOnlyRoot
	for _, tt := range []struct {
		name, path string
		want       string
		read       error
		write      error
	}{
		{name: "file", path: "file", want: f.root + "/file"},
		{name: "root", path: ".", want: f.root},
		{name: "root absolute", path: f.root, want: f.root},
		{name: "trailing slash", path: f.root + "/dir/", want: f.root + "/dir"},
		{name: "double slash", path: f.root + "//dir//file", want: f.root + "/dir/file"},
		{name: "leading dash", path: "-rf", want: f.root + "/-rf"},
		{name: "odd name", path: "quo\"te\n-name", want: f.root + "/quo\"te\n-name"},
		{name: "invalid UTF-8", path: "bad\xffutf8", want: f.root + "/bad\xffutf8"},
		{name: "255 bytes", path: long, want: f.root + "/" + long},
		{name: "tilde name", path: "~user/x", want: f.root + "/~user/x"},
		{name: "missing", path: "new", want: f.root + "/new"},
		{name: "missing intermediates", path: "a/b/c/d", want: f.root + "/a/b/c/d"},
		{name: "dots over missing", path: "a/../b/./c/../d", want: f.root + "/b/d"},
		{name: "dots that stay", path: "dir/../file", want: f.root + "/file"},
		{name: "dots out and in", path: "../proj/file", want: f.root + "/file"},
		{name: "link in", path: "in/file", want: f.root + "/dir/file"},
		{name: "link to file in", path: "in-file", want: f.root + "/dir/file"},
		{name: "missing below link in", path: "in/new/er", want: f.root + "/dir/new/er"},
		{name: "dangling in", path: "dangling-in", want: f.root + "/dir/new"},
		{name: "link out and back in", path: "back/file", want: f.root + "/dir/file"},
		{name: "dots after link are physical", path: "in/../file", want: f.root + "/file"},
		{name: "link to parent", path: "dir/updir/dir/updir/file", want: f.root + "/file"},

		{name: "dots out", path: "../outside/file", read: outside, write: outside},
		{name: "many dots", path: strings.Repeat("../", 64) + "etc/passwd", read: outside, write: outside},
		{name: "dots over missing out", path: "a/../../outside/file", read: outside, write: outside},
		{name: "absolute out", path: "/etc/passwd", read: outside, write: outside},
		{name: "slash", path: "/", read: outside, write: outside},
		{name: "sibling with the root's prefix", path: f.root + "-evil/file", read: outside, write: outside},
		{name: "link out", path: "out/file", read: outside, write: outside},
		{name: "link out, missing tail", path: "out/new/er", read: outside, write: outside},
		{name: "absolute link out", path: "out-abs/file", read: outside, write: outside},
		{name: "link to file out", path: "out-file", read: outside, write: outside},
		{name: "chain out", path: "chain1", read: outside, write: outside},
		{name: "dangling out", path: "dangling-out", read: outside, write: outside},
		{name: "dangling out below missing directory", path: "dangling-out-dir", read: outside, write: outside},
		{name: "dots after link out", path: "out/../proj/../outside/file", read: outside, write: outside},
		{name: "link with dots", path: "dots/file", read: outside, write: outside},
		{name: "loop", path: "loop1", read: ErrLoop, write: ErrLoop},
		{name: "loop to itself", path: "self/x", read: syscall.ELOOP, write: syscall.ELOOP},
		{name: "below a file", path: "file/x", read: syscall.ENOTDIR, write: syscall.ENOTDIR},

		{name: "read-only root", path: f.readonly + "/file", want: f.readonly + "/file", write: readonly},
		{name: "read-only root, new", path: f.readonly + "/new", want: f.readonly + "/new", write: readonly},
		{name: "link to read-only root", path: "ro-link/file", want: f.readonly + "/file", write: readonly},
		{name: "dangling to read-only root", path: "dangling-ro", want: f.readonly + "/new", write: readonly},
		{name: "read-only root in the project", path: "vendor/lib", want: f.root + "/vendor/lib", write: readonly},
		{name: "writable root", path: f.writable + "/new", want: f.writable + "/new"},

		{name: "home is outside", path: "~/file", read: outside, write: outside},
		{name: "home itself", path: "~", read: outside, write: outside},
		{name: "link in home to a root", path: "~/tools/file", want: f.readonly + "/file", write: readonly},
		{name: "home and dots to a root", path: "~/../proj/file", want: f.root + "/file"},
		{name: "home with an absolute tail", path: "~//etc/passwd", read: outside, write: outside},

		{name: "alias", path: "/tmp/file", want: f.alias + "/file"},
		{name: "alias itself", path: "/tmp", want: f.alias},
		{name: "alias, new", path: "/tmp/a/b", want: f.alias + "/a/b"},
		{name: "alias by host path", path: f.alias + "/file", want: f.alias + "/file"},
		{name: "alias, link made inside", path: "/tmp/loopback", want: f.alias + "/file"},
		{name: "link to alias", path: "tmplink", want: f.alias + "/file"},
		{name: "alias, dots", path: "/tmp/a/../file", want: f.alias + "/file"},
		{name: "alias, dots to /", path: "/tmp/../etc/passwd", read: outside, write: outside},
		{name: "alias, dots to / and back", path: "/tmp/a/../../tmp/file", want: f.alias + "/file"},
		{name: "alias, dots to its parent", path: "/tmp/../file", read: outside, write: outside},
		{name: "alias, link to its parent", path: "/tmp/up", read: outside, write: outside},
		{name: "alias, host path, parent", path: f.alias + "/../file", read: outside, write: outside},
		{name: "alias prefix", path: "/tmpfile", read: outside, write: outside},

		{name: "empty", path: "", read: ErrInvalidPath, write: ErrInvalidPath},
		{name: "NUL", path: "file\x00.txt", read: ErrInvalidPath, write: ErrInvalidPath},
		{name: "256 bytes", path: long + "n", read: ErrNameTooLong, write: ErrNameTooLong},
		{name: "256 bytes below a missing one", path: "a/" + long + "n", read: ErrNameTooLong, write: ErrNameTooLong},
		{name: "long path", path: strings.Repeat("d/", 2048), read: ErrNameTooLong, write: ErrNameTooLong},
		{name: "long by being joined", path: strings.Repeat("dd/", 1364), read: ErrNameTooLong, write: ErrNameTooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.write == nil && tt.read != nil {
				t.Fatal("a case that refuses reading must refuse writing")
			}
			got, err := w.ResolveForRead(tt.path)
			check(t, "read", got, err, tt.want, tt.read)
			got, err = w.ResolveForWrite(tt.path)
			check(t, "write", got, err, tt.want, tt.write)
		})
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

// Each escape reaches a file outside with the control and is refused by the
// workspace.
func TestEscapesReachOutsideWithoutContainment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := mustNew(t, Options{Root: f.root, Home: f.home})
	for _, tt := range []struct {
		path       string
		fooledText bool // gets past the comparison of text, too
	}{
		{"../outside/file", false},
		{"dir/../../outside/file", false},
		{f.outside + "/file", false},
		{f.root + "-evil/file", true},
		{"out/file", true},
		{"out/dir/file", true},
		{"out-abs/file", true},
		{"out-file", true},
		{"chain1", true},
		{"dots/file", true},
	} {
		data, err := os.ReadFile(unchecked(f.root, tt.path))
		if err != nil || string(data) != "secret" {
			t.Errorf("%q: control reads %q, %v; want the secret", tt.path, data, err)
		}
		if _, ok := naive(f.root, tt.path); ok != tt.fooledText {
			t.Errorf("%q: comparison of text allows: %v, want %v", tt.path, ok, tt.fooledText)
		}
		if got, err := w.ResolveForRead(tt.path); !errors.Is(err, ErrOutside) {
			t.Errorf("%q: resolved to %q, %v", tt.path, got, err)
		}
		if file, err := w.Open(tt.path); !errors.Is(err, ErrOutside) {
			file.Close()
			t.Errorf("%q: opened, %v", tt.path, err)
		}
	}
	// A dangling link is a write outside for who takes it for a new file.
	created := filepath.Join(f.outside, "new")
	if err := os.WriteFile(unchecked(f.root, "dangling-out"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(created); err != nil {
		t.Errorf("control: %v", err)
	}
	if err := os.Remove(created); err != nil {
		t.Fatal(err)
	}
	if file, err := w.OpenFile("dangling-out", os.O_WRONLY|os.O_CREATE, 0o600); !errors.Is(err, ErrOutside) {
		file.Close()
		t.Errorf("dangling link: %v", err)
	}
	if _, err := os.Lstat(created); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dangling link: created outside: %v", err)
	}
}

// What resolves, resolves to itself.
func TestResolveIsIdempotent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := mustNew(t, f.options())
	for _, p := range []string{"in/file", "back/file", "/tmp/file", "~/tools/file", "dangling-in", "a/../b"} {
		once, err := w.ResolveForRead(p)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := w.ResolveForRead(once); twice != once || err != nil {
			t.Errorf("%q: %q, then %q, %v", p, once, twice, err)
		}
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
	tree(t, tmp, map[string]string{"proj/file": "inside", "link": "-> proj", "beside": "host", "proj/to": "-> " + tmp + "/beside"})
	resolved, err := filepath.EvalSymlinks(tmp)
	if err != nil {
		t.Fatal(err)
	}
	w := mustNew(t, Options{Root: tmp + "/link", TempAlias: scratch})
	rel := strings.TrimPrefix(tmp, "/tmp/")
	for path, want := range map[string]string{
		tmp + "/proj/file":              resolved + "/proj/file",
		tmp + "/link/file":              resolved + "/proj/file",
		tmp + "/link/new":               resolved + "/proj/new",
		"file":                          resolved + "/proj/file",
		tmp + "/beside":                 scratch + "/" + rel + "/beside",
		tmp + "/proj-evil":              scratch + "/" + rel + "/proj-evil",
		"to":                            scratch + "/" + rel + "/beside",
		tmp + "/proj/../beside":         scratch + "/" + rel + "/beside",
		"/tmp/../tmp/" + rel + "/link/": resolved + "/proj",
		"/tmp/other":                    scratch + "/other",
	} {
		if got, err := w.ResolveForWrite(path); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", path, got, err, want)
		}
	}
	// Without the alias, the host's /tmp is outside.
	w = mustNew(t, Options{Root: tmp + "/proj"})
	if got, err := w.ResolveForRead(tmp + "/beside"); !errors.Is(err, ErrOutside) {
		t.Errorf("no alias: got %q, %v", got, err)
	}
}

// The scratch directory may be made after New.
func TestAliasMadeLater(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"proj": "dir", "cache": "dir", "link": "-> cache"})
	w := mustNew(t, Options{Root: base + "/proj", TempAlias: base + "/link/s/tmp"})
	want := base + "/cache/s/tmp/x"
	if got, err := w.ResolveForWrite("/tmp/x"); got != want || err != nil {
		t.Fatalf("before: got %q, %v; want %q", got, err, want)
	}
	tree(t, base, map[string]string{"cache/s/tmp": "dir"})
	f, err := w.OpenFile("/tmp/x", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := os.Stat(want); err != nil {
		t.Error(err)
	}
}

func TestSensitive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lax := mustNew(t, Options{Root: f.root, Home: f.home})
	strict := mustNew(t, Options{Root: f.root, Home: f.home, DenySensitive: true})
	for path, sensitive := range map[string]bool{
		".env": true, "./.env": true, "dir/../.env": true, ".env/.": true, ".env.production": true, "new/.env": true,
		"notes": true, "hidden": true, "named/.env.local": true,
		".env.example": true, ".envrc": false, "x.env": false, "venv/.env/bin/run": false, "file": false,
	} {
		if _, err := lax.ResolveForRead(path); err != nil {
			t.Errorf("%q: control: %v", path, err)
		}
		for _, resolve := range []func(string) (string, error){strict.ResolveForRead, strict.ResolveForWrite} {
			got, err := resolve(path)
			if errors.Is(err, ErrSensitive) != sensitive || (err != nil) != sensitive {
				t.Errorf("%q: got %q, %v; sensitive: %v", path, got, err, sensitive)
			}
		}
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
		{dir: "dir", want: f.root + "/dir"},
		{dir: "in", want: f.root + "/dir"},
		{dir: f.readonly, want: f.readonly},
		{dir: "/tmp", want: f.alias},
		{dir: "~/tools", want: f.readonly},
		{dir: "file", err: syscall.ENOTDIR},
		{dir: "new", err: fs.ErrNotExist},
		{dir: "out", err: ErrOutside},
		{dir: "..", err: ErrOutside},
		{dir: "/", err: ErrOutside},
		{dir: f.root + "-evil", err: ErrOutside},
		{dir: "dangling-out", err: ErrOutside},
	} {
		got, err := w.ResolveDir(tt.dir)
		check(t, tt.dir, got, err, tt.want, tt.err)
	}
	if len(w.Roots()) != before {
		t.Error("a working directory became a root")
	}
}

func TestUnsearchableDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Log("root searches every directory; an ordinary user's run shows the refusal")
		return
	}
	root := tempDir(t)
	tree(t, root, map[string]string{"shut/file": "x"})
	if err := os.Chmod(root+"/shut", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(root+"/shut", 0o700) })
	w := mustNew(t, Options{Root: root})
	if got, err := w.ResolveForRead("shut/file"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestZeroWorkspaceContainsNothing(t *testing.T) {
	t.Parallel()
	var w Workspace
	for _, p := range []string{".", "x", "/", "/tmp", "~"} {
		if got, err := w.ResolveForRead(p); !errors.Is(err, ErrOutside) {
			t.Errorf("%q: got %q, %v", p, got, err)
		}
	}
}
