package facts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// tree is a small host file system: a home with a project, a cache, a symlink
// to the cache, and a directory whose name merely begins like the project's.
type tree struct {
	base, home, project, cache, link string
}

func newTree(t *testing.T) tree {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := tree{base: base, home: base + "/home", project: base + "/home/src/project", cache: base + "/data/cache", link: base + "/home/cache"}
	for _, dir := range []string{tr.project + "/sub", tr.project + "-evil", tr.cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(tr.cache, tr.link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tr.project+"/config.hcl", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr tree) machine(t *testing.T) *Machine {
	t.Helper()
	ws, err := workspace.New(workspace.Options{Root: tr.project, Home: tr.home, LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	return &Machine{Config: Config{Workspace: ws, Caller: Caller{UID: 1000, Home: tr.home}}}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	show := func(s shared.Spec) []string {
		var lines []string
		for _, m := range present(&s) {
			if strings.HasPrefix(m.Why, "filesystem: ") || strings.HasPrefix(m.Why, "socket file") && !strings.HasPrefix(m.Path, tr.base) {
				continue // of this machine
			}
			lines = append(lines, strings.ReplaceAll(m.Access.String()+" "+m.Source+" "+m.Path+" "+m.Why, tr.base, "B"))
		}
		return lines
	}
	for _, test := range []struct {
		name      string
		def       view.Definition
		protected []string
		want      []string
	}{
		{"the zero definition", view.Definition{}, nil, []string{
			"read-write B/home/src/project B/home/src/project workspace",
		}},
		{"read-only, at another place", view.Definition{ReadOnly: true, Workdir: "/workspace"}, nil, []string{
			"read-only B/home/src/project /workspace workspace",
		}},
		{"both spellings of a symlinked bind", view.Definition{BindPaths: []view.Bind{{Host: "~/cache"}}}, nil, []string{
			"read-write B/home/src/project B/home/src/project workspace",
			"read-only B/data/cache B/data/cache bind_paths[0]",
			"read-only B/data/cache B/home/cache bind_paths[0]",
		}},
		{"both where the host's tree has the link in a home", view.Definition{BindPaths: []view.Bind{{Host: tr.link}}, Filesystem: "host"}, nil, []string{
			"read-write B/home/src/project B/home/src/project workspace",
			"read-only B/data/cache B/data/cache bind_paths[0]",
			"read-only B/data/cache B/home/cache bind_paths[0]",
		}},
		{"a remapped bind has one place", view.Definition{BindPaths: []view.Bind{{Host: "~/cache", Container: "/cache", Writable: true}}}, nil, []string{
			"read-write B/home/src/project B/home/src/project workspace",
			"read-write B/data/cache /cache bind_paths[0]",
		}},
		{"an optional bind that is missing", view.Definition{BindPaths: []view.Bind{{Host: "~/nothing", Optional: true}}}, nil, []string{
			"read-write B/home/src/project B/home/src/project workspace",
		}},
		{"a relative bind is the workspace's", view.Definition{ReadOnly: true, BindPaths: []view.Bind{{Host: "sub", Writable: true}}}, nil, []string{
			"read-only B/home/src/project B/home/src/project workspace",
			"read-write B/home/src/project/sub B/home/src/project/sub bind_paths[0]",
		}},
		{"the configuration in force is read-only", view.Definition{Workdir: "/w"}, []string{tr.project + "/config.hcl"}, []string{
			"read-write B/home/src/project /w workspace",
			"read-only B/home/src/project/config.hcl /w/config.hcl protected: the configuration in force",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := tr.machine(t)
			r.HostPaths = configs(test.protected...)
			out, err := r.resolve(t.Context(), "fast", test.def)
			if err != nil {
				t.Fatal(err)
			}
			got := show(out.Spec)
			slices.Sort(got)
			slices.Sort(test.want)
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if err := out.Spec.Validate(); err != nil {
				t.Errorf("the Spec is not valid: %v", err)
			}
			if out.Spec.Network.Mode != shared.NetworkNone || out.Spec.Unconfined {
				t.Errorf("the Spec does not isolate: %+v", out.Spec)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for _, test := range []struct {
		def             view.Definition
		attribute, text string
	}{
		{view.Definition{Workdir: "rel"}, "workdir", "absolute"},
		{view.Definition{Workdir: "/a/../b"}, "workdir", "shortest form"},
		{view.Definition{BindPaths: []view.Bind{{Host: "/proc"}}}, "bind_paths[0]", "each command has a /proc of its own"},
		{view.Definition{BindPaths: []view.Bind{{Host: "/proc/self"}}}, "bind_paths[0]", "each command has a /proc of its own"},
		{view.Definition{BindPaths: []view.Bind{{Host: "~/nothing"}}}, "bind_paths[0]", "optional = true"},
		{view.Definition{BindPaths: []view.Bind{{Host: "~/cache"}, {Host: "../x"}}}, "bind_paths[1]", ".."},
		{view.Definition{BindPaths: []view.Bind{{Host: ""}}}, "bind_paths[0]", "empty"},
		{view.Definition{BindPaths: []view.Bind{{Host: "/"}}}, "bind_paths[0]", "filesystem"},
		{view.Definition{BindPaths: []view.Bind{{Host: "none/a\x00b", Optional: true}}}, "bind_paths[0]", "NUL"},
		{view.Definition{BindPaths: []view.Bind{{Host: "~/cache", Container: "rel"}}}, "bind_paths[0]", "absolute"},
		{view.Definition{BindPaths: []view.Bind{{Host: "~/cache", Container: "/c"}, {Host: tr.project, Container: "/c"}}}, "bind_paths[1]", "already"},
		{view.Definition{BindPaths: []view.Bind{{Host: "~/cache"}, {Host: "~/cache", Writable: true}}}, "bind_paths[1]", "already"},
	} {
		_, err := tr.machine(t).resolve(t.Context(), "fast", test.def)
		var e *shared.Error
		if !errors.As(err, &e) || e.Attribute != test.attribute || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: got %v, want an error at %s that says %q", test.def, err, test.attribute, test.text)
		}
	}
}

func TestInsidePath(t *testing.T) {
	t.Parallel()
	spec := &shared.Spec{Home: "/home/u", Table: []shared.Entry{
		{Source: "/home/u/p", Path: "/workspace", Access: shared.ReadWrite},
		{Source: "/home/u/p/vendor", Path: "/vendor", Access: shared.ReadOnly},
		{Source: "/opt/tools", Path: "/opt/tools", Access: shared.ReadOnly},
	}}
	for host, want := range map[string]string{
		"/home/u/p": "/workspace", "/home/u/p/a": "/workspace/a", "/home/u/p/vendor/x": "/vendor/x",
		"/opt/tools/bin": "/opt/tools/bin", "/home/u/p-evil": "", "/home/u": "",
	} {
		if got, ok := view.InsidePath(spec, host); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", host, got, ok, want)
		}
	}
	for p, want := range map[string]bool{
		"/workspace/bin": true, "/vendor/bin": false, "/opt/tools/bin": false, "/usr/bin": false, "/home/u/bin": true,
		"/tmp/bin": true, "/home/user2/bin": false, "/": false,
	} {
		if got := view.WritableInside(spec, p); got != want {
			t.Errorf("writable at %s: got %v, want %v", p, got, want)
		}
	}
}

// No directory of PATH is where a command can plant programs for the next one,
// by whatever path, and one that is elsewhere stays.
func TestUsablePath(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	write(t, tr.base, "outside/bin/x", "shared/bin/x", "tools/bin/x")
	write(t, tr.project, "bin/x", "part/bin/x")
	for name, to := range map[string]string{
		"link": tr.project + "/bin", "through": tr.project, "chain": "link", "missing": tr.project + "/later", "loop": "loop",
		"shared": tr.base + "/shared/bin", "good": "bin", "up": tr.project + "/sub",
	} {
		if err := os.Symlink(to, tr.base+"/outside/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(tr.project+"/bin", tr.base+"/tools/planted"), os.Symlink(tr.project+"/later-on", tr.base+"/outside/by"), os.Symlink("/usr/bin", tr.project+"/later-on")); err != nil {
		t.Fatal(err)
	}
	out, err := tr.machine(t).resolve(t.Context(), "fast", view.Definition{Workdir: "/w", BindPaths: []view.Bind{
		{Host: tr.base + "/outside"}, {Host: tr.base + "/shared", Container: "/shared", Writable: true},
		{Host: tr.base + "/tools", Container: "/tools"}, {Host: tr.project + "/part", Container: "/part"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		"/usr/bin": true, "/usr/bin/": true, "/no/such": true, tr.base + "/outside/bin": true, tr.base + "/outside/good": true, "/tools/bin": true,
		tr.base + "/outside/link": false, tr.base + "/outside/through/bin": false, tr.base + "/outside/chain": false, tr.base + "/outside/missing": false, tr.base + "/outside/by": false,
		tr.base + "/outside/loop": false, tr.base + "/outside/shared": false, tr.base + "/outside/up/../bin": false, "/tools/planted": false,
		"/w/bin": false, "/w/later": false, "/w": false, "/shared/bin": false, "/part/bin": false, "/usr/../w/bin": false,
		tr.project + "/bin": false, "/proc/self/cwd": false, "/tmp/x": false, tr.home + "/bin": false,
	} {
		if got := out.UsableInPath(&out.Spec, dir); got != want {
			t.Errorf("%s: %v, want %v", dir, got, want)
		}
	}
}

// What a command could have planted in the tree that it writes to does not
// decide what the next one is shown, nor run outside.
func TestResolveDistrustsTheWorkspace(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	secret := tr.base + "/secret"
	if err := os.MkdirAll(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	bind := view.Definition{BindPaths: []view.Bind{{Host: tr.project + "/sub", Container: "/sub", Writable: true}}}
	if _, err := tr.machine(t).resolve(t.Context(), "fast", bind); err != nil {
		t.Fatalf("the control: %v", err)
	}
	if err := errors.Join(os.Remove(tr.project+"/sub"), os.Symlink(secret, tr.project+"/sub")); err != nil {
		t.Fatal(err)
	}
	_, err := tr.machine(t).resolve(t.Context(), "fast", bind)
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "bind_paths[0]" || !strings.Contains(err.Error(), "symlink") {
		t.Errorf("a source that was replaced by a symlink: %v", err)
	}
	readOnly := bind
	readOnly.ReadOnly = true
	readOnly.BindPaths = []view.Bind{{Host: tr.project + "/sub", Container: "/sub"}}
	if _, err := tr.machine(t).resolve(t.Context(), "fast", readOnly); err != nil {
		t.Errorf("where no command can write: %v", err)
	}

	engine := tr.project + "/bin/sbxhost-engine-bwrap"
	if err := errors.Join(os.Mkdir(tr.project+"/bin", 0o755), os.WriteFile(engine, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	r := tr.machine(t)
	r.HostPaths = []view.HostPath{{Path: tr.project + "/bin", Kind: view.HostNames, Names: []string{"sbxhost-engine-bwrap"}}, {Path: tr.base, Kind: view.HostNames, Names: []string{"elsewhere"}}}
	out, err := r.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	if view.WritableInside(&out.Spec, engine) {
		t.Errorf("the engine's program is writable inside: %+v", out.Spec.Table)
	}
	if !view.WritableInside(&out.Spec, tr.project+"/bin/other") {
		t.Error("what lies beside it is not writable")
	}
}

func TestHomeThatIsTheSystem(t *testing.T) {
	t.Parallel()
	for home, want := range map[string]bool{"/home/u": false, "/root": false, "/": true, "/usr": true, "/usr/share/app": true, "/var/lib/app": false, "/nix/x": true, "/usrlocal": false} {
		if got := view.Home(home) != home; got != want {
			t.Errorf("%s: %v, want %v", home, got, want)
		}
	}
}

// An engine that shows every path where the host has it is not asked to show
// one where its author has spelled it through a link.
func TestSpellingsWithoutRemap(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	r := tr.machine(t)
	out, err := r.resolve(t.Context(), "s", view.Definition{BindPaths: []view.Bind{{Host: tr.link}}})
	if err != nil {
		t.Fatal(err)
	}
	has := func(s shared.Spec, destination string) bool {
		return slices.ContainsFunc(s.Table, func(m shared.Entry) bool { return m.Path == destination })
	}
	if !has(out.Spec, tr.link) || !has(out.Spec, tr.cache) {
		t.Fatalf("%+v", out.Spec.Table)
	}
	spec, notes := out.AsHost()
	if has(spec, tr.link) || !has(spec, tr.cache) || !has(out.Spec, tr.link) {
		t.Errorf("%+v", spec.Table)
	}
	if missing := spec.Without(shared.Features{shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal,
		shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata}); len(missing) > 0 {
		t.Errorf("it still needs %v", missing)
	}
	// The base of this test may lie under a link of the system's.
	if system := strings.HasPrefix(tr.base, "/tmp/") || strings.HasPrefix(tr.base, "/var/"); len(notes) != 1 != system {
		t.Errorf("notes %q", notes)
	}
	if moved, err := r.resolve(t.Context(), "s", view.Definition{Workdir: "/workspace"}); err != nil {
		t.Fatal(err)
	} else if spec, _ := moved.AsHost(); !has(spec, "/workspace") {
		t.Error("what was asked for by its author is left out")
	}
}

func (m *Machine) resolve(ctx context.Context, name string, d view.Definition) (*Resolution, error) {
	return m.Resolve(ctx, Request{Name: name, Definition: d})
}
