package mountplan

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run the test with -update and look at the difference\ngot:\n%s", file, got)
	}
}

// show gives a plan one step a line.
func show(ops []holder.Op) string {
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "%-11s %s", o.Kind, o.Dest)
		if o.Source != "" {
			fmt.Fprintf(&b, " <- %s", o.Source)
		}
		fmt.Fprintf(&b, "  # %s\n", o.Why)
	}
	return b.String()
}

// full is a Spec with one of everything.
func full() *shared.Spec {
	return &shared.Spec{
		Home: "/home/u",
		Table: []shared.Entry{
			{Source: "/cache/file", Path: "/home/u/proj/src/a", Why: "bind_paths[2]", Access: shared.ReadOnly},
			{Source: "/home/u/proj", Path: "/home/u/proj", Access: shared.ReadWrite, Why: "workspace"},
			{Source: "/home/u/.gitconfig", Path: "/home/u/.gitconfig", Why: "bind_paths[0]", Access: shared.ReadOnly},
			{Source: "/cache/dir", Path: "/cache", Access: shared.ReadWrite, Why: "bind_paths[1]"},
			{Path: "/scratch", Access: shared.Private, Why: "tmpfs[0]"},
			{Source: "/cache/dir", Path: "/over", Access: shared.Overlay, Degradable: true, Why: "workspace.caches"},
		},
	}
}

func TestGoldenPlans(t *testing.T) {
	t.Parallel()
	for name, tree := range distributions {
		f := gather(tree, 1000, 8<<30)
		for _, tt := range []struct {
			name string
			spec *shared.Spec
		}{
			{"minimal", &shared.Spec{}},
			{"host", &shared.Spec{Filesystem: shared.FilesystemHost, Network: shared.Network{Mode: shared.NetworkHost}}},
		} {
			ops, err := Plan(f, &Support{}, tt.spec)
			if err != nil {
				t.Errorf("%s, %s: %v", name, tt.name, err)
				continue
			}
			golden(t, name+"-"+tt.name, show(ops))
		}
	}
	for _, view := range []shared.Filesystem{shared.FilesystemMinimal, shared.FilesystemHost} {
		// Where /etc/resolv.conf is a file, and where it leads into a private /run.
		for _, name := range []string{"debian", "debian-split"} {
			ops, err := Plan(gather(distributions[name], 1000, 8<<30), &Support{Nameserver: "198.18.0.1"}, &shared.Spec{Filesystem: view})
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "named-"+name+"-"+view.String(), show(ops))
		}
	}
	spec := full()
	spec.Table = append(spec.Table, hide("/home/u/proj/.git", "/home/u/proj/.git/config", "/home/u/proj/src/b", "/home/u/proj/absent", "/mnt/unseen")...)
	ops, err := Plan(gather(distributions["debian"], 0, 8<<30), &Support{}, spec)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "full-root", show(ops))
	spec.Filesystem = shared.FilesystemHost
	spec.Table = slices.Concat(spec.Table[:3], spec.Table[6:])
	if ops, err = Plan(gather(distributions["debian"], 0, 8<<30), &Support{}, spec); err != nil {
		t.Fatal(err)
	}
	golden(t, "full-host-root", show(ops))
}

// No layout shows what is secret, and every layout has the parts.
func TestNoSecretsInAnyLayout(t *testing.T) {
	t.Parallel()
	for name, tree := range distributions {
		ops, err := Plan(gather(tree, 1000, 0), &Support{}, &shared.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range ops {
			for _, bad := range []string{"shadow", "ssh", "private", "machine-id", "settings.xml", "npmrc", "entitlement", "docker.sock", "php.ini", "fpm", ".site", "sources.list", "apikeys", "/var/lib/apt", "/var/lib/postgresql"} {
				if strings.Contains(o.Dest, bad) || strings.Contains(o.Source, bad) {
					t.Errorf("%s: %+v", name, o)
				}
			}
			for _, dir := range []string{"/", "/etc", "/etc/ssl", "/etc/pki", "/etc/pki/tls", "/home", "/run", "/var", "/var/lib", "/etc/php", "/etc/R"} {
				if o.Kind == holder.ReadOnlyBind && o.Source == dir {
					t.Errorf("%s: binds all of %s", name, dir)
				}
			}
		}
	}
}

func mount(kind shared.Access, source, destination string) shared.Entry {
	return shared.Entry{Source: source, Path: destination, Access: kind, Why: "bind_paths[7]"}
}

func TestRefusedMounts(t *testing.T) {
	t.Parallel()
	tree := distributions["debian"].with(fakeTree{
		"/home/u/proj/evil": "->/oldroot/etc", "/home/u/proj/rel": "->src", "/ro/link": "->dir", "/ro/dir/x": "/", "/locked": "error",
		"/now/a/link": "->/etc", "/usr/share/doc": "/",
	})
	ws := mount(shared.ReadWrite, "/home/u/proj", "/home/u/proj")
	for _, tt := range []struct {
		name   string
		view   shared.Filesystem
		mounts []shared.Entry
		want   string
	}{
		{"root", 0, []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/")}, `would replace the whole view`},
		{"proc", 0, []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/proc")}, "lies in /proc"},
		{"proc sys", 0, []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/proc/sys/kernel")}, "lies in /proc"},
		{"dev", 0, []shared.Entry{mount(shared.ReadOnly, "/cache/file", "/dev/null")}, "lies in /dev"},
		{"sys", 1, []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/sys/fs")}, "lies in /sys"},
		{"planted absolute", 0, []shared.Entry{ws, mount(shared.ReadOnly, "/cache/dir", "/home/u/proj/evil/x")}, "goes through the symlink /home/u/proj/evil"},
		{"planted relative", 0, []shared.Entry{ws, mount(shared.ReadOnly, "/cache/dir", "/home/u/proj/rel")}, "goes through the symlink /home/u/proj/rel"},
		{"planted, remapped", 0, []shared.Entry{mount(shared.ReadWrite, "/home/u/proj", "/w"), mount(shared.ReadOnly, "/cache/dir", "/w/rel/x")}, "goes through the symlink /w/rel"},
		{"planted, seen read-only", 0, []shared.Entry{ws, mount(shared.ReadOnly, "/home/u", "/view"), mount(shared.ReadOnly, "/cache/dir", "/view/proj/rel/x")}, "goes through the symlink"},
		{"planted, host view", 1, []shared.Entry{ws, mount(shared.ReadOnly, "/cache/dir", "/home/u/proj/rel")}, "goes through the symlink"},
		{"stub in a bind", 0, []shared.Entry{ws, mount(shared.ReadOnly, "/cache/dir", "/home/u/proj/new")}, `does not exist in the bind around it ("/home/u/proj/new"`},
		{"stub in /usr", 0, []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/usr/new/deep")}, "does not exist in the bind around it"},
		{"stub in the host view", 1, []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/new")}, "does not exist in the bind around it"},
		{"directory on file", 0, []shared.Entry{ws, mount(shared.ReadOnly, "/cache/dir", "/home/u/proj/src/a")}, "is a file, where a directory is needed"},
		{"file on directory", 0, []shared.Entry{ws, mount(shared.ReadOnly, "/cache/file", "/home/u/proj/src")}, "is a directory, where a file is needed"},
		{"through a file", 0, []shared.Entry{ws, mount(shared.ReadOnly, "/cache/file", "/home/u/proj/src/a/b")}, "does not exist"},
		{"no source", 0, []shared.Entry{mount(shared.ReadOnly, "/absent", "/x")}, `"/absent" does not exist`},
		{"swapped source", 0, []shared.Entry{mount(shared.ReadOnly, "/now/a/link", "/x")}, "has become a symlink"},
		{"unreadable source", 0, []shared.Entry{mount(shared.ReadOnly, "/locked", "/x")}, "permission denied"},
		{"conflict through a link", 0, []shared.Entry{mount(shared.ReadOnly, "/cache/file", "/usr/bin/sh"), mount(shared.ReadOnly, "/home/u/.gitconfig", "/bin/sh")}, "is that of"},
		{"overlay", 0, []shared.Entry{mount(shared.Overlay, "/cache/dir", "/x")}, "there is no session"},
	} {
		_, err := Plan(gather(tree, 1000, 0), &Support{}, &shared.Spec{Filesystem: tt.view, Table: tt.mounts})
		e, ok := errors.AsType[*shared.Error](err)
		if !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			continue
		}
		if e.Attribute != "bind_paths[7]" {
			t.Errorf("%s: attribute %q", tt.name, e.Attribute)
		}
	}
}

// dests gives the destinations of the steps that the test's mounts became.
func dests(ops []holder.Op) string {
	var out []string
	for _, o := range ops {
		if o.Why == "bind_paths[7]" {
			out = append(out, o.Dest)
		}
	}
	return strings.Join(out, " ")
}

func TestAdmittedMounts(t *testing.T) {
	t.Parallel()
	tree := distributions["debian"].with(fakeTree{"/ro/link": "->dir", "/ro/dir/x": "/", "/var/run": "->/run", "/usr/bin/tool": ""})
	for _, tt := range []struct {
		name   string
		mounts []shared.Entry
		want   string
	}{
		{"through the view's own link", []shared.Entry{mount(shared.ReadOnly, "/cache/file", "/bin/tool")}, "/usr/bin/tool"},
		{"both spellings", []shared.Entry{mount(shared.ReadOnly, "/cache/file", "/bin/tool"), mount(shared.ReadOnly, "/cache/file", "/usr/bin/tool")}, "/usr/bin/tool"},
		{"through a link that nobody inside can change", []shared.Entry{mount(shared.ReadOnly, "/ro", "/ro"), mount(shared.ReadOnly, "/cache/dir", "/ro/link/x")}, "/ro /ro/dir/x"},
		{"over the view's own file", []shared.Entry{mount(shared.ReadOnly, "/cache/file", "/etc/passwd")}, "/etc/passwd"},
		{"directory over it", []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/etc/passwd")}, "/etc/passwd"},
		{"all of etc", []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/etc")}, "/etc"},
		{"session's tmp", []shared.Entry{mount(shared.ReadWrite, "/cache/dir", "/tmp")}, "/tmp"},
		{"beneath the private tmp", []shared.Entry{mount(shared.ReadWrite, "/cache/dir", "/tmp/proj")}, "/tmp/proj"},
		{"beneath /var/tmp, which is linked otherwise", []shared.Entry{mount(shared.ReadWrite, "/cache/dir", "/var/tmp/proj")}, "/var/tmp/proj"},
		{"on the view's own links", []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/sbin"), mount(shared.ReadOnly, "/cache/file", "/etc/localtime"), mount(shared.ReadOnly, "/cache/dir", "/var/tmp")}, "/etc/localtime /sbin /var/tmp"},
		{"beneath run", []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/run/x/y")}, "/run/x/y"},
		{"the workspace is read-only in another", []shared.Entry{mount(shared.ReadWrite, "/home/u/proj", "/home/u/proj"), mount(shared.ReadOnly, "/home/u/proj/.git", "/home/u/proj/.git")}, "/home/u/proj /home/u/proj/.git"},
	} {
		ops, err := Plan(gather(tree, 1000, 0), &Support{}, &shared.Spec{Table: tt.mounts})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := dests(ops); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		seen := map[string]bool{}
		for _, o := range ops {
			if o.Kind != holder.ReadOnly && seen[o.Dest] {
				t.Errorf("%s: two steps at %s", tt.name, o.Dest)
			}
			seen[o.Dest] = true
		}
	}
}

// hide gives entries that hide what is at some paths.
func hide(paths ...string) []shared.Entry {
	table := make([]shared.Entry, len(paths))
	for i, p := range paths {
		table[i] = shared.Entry{Path: p, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "deny_paths[0]"}
	}
	return table
}

func TestHiddenPlans(t *testing.T) {
	t.Parallel()
	tree := distributions["debian"].with(fakeTree{"/home/u/proj/link": "->src/a", "/home/u/proj/out": "->/cache/file", "/home/u/proj/d/e/f": ""})
	ws := mount(shared.ReadWrite, "/home/u/proj", "/home/u/proj")
	for _, tt := range []struct {
		hidden []string
		shown  []shared.Entry
		want   string
	}{
		{[]string{"/home/u/proj/src/a"}, nil, "mask /home/u/proj/src/a"},
		{[]string{"/home/u/proj/d/e/f", "/home/u/proj/d", "/home/u/proj/d/e"}, nil, "mask /home/u/proj/d"},
		{[]string{"/home/u/proj/link", "/home/u/proj/src/a"}, nil, "mask /home/u/proj/src/a"},
		{[]string{"/home/u/proj/out"}, nil, ""}, // leads to what is not visible
		{[]string{"/home/u/proj/nothing/here", "/cache/file", "/tmp/x"}, nil, ""},
		{[]string{"/home"}, nil, "tmpfs /home remount-ro /home"}, // it is made for what is shown in it
		{[]string{"/home/u"}, []shared.Entry{mount(shared.ReadOnly, "/home", "/home")}, "tmpfs /home/u remount-ro /home/u"},
		{[]string{"/usr/bin/sh", "/bin/sh"}, nil, "mask /usr/bin/sh"},
		{[]string{"/home/u/proj"}, nil, "mask /home/u/proj"}, // of two at one place that which hides
		{[]string{"/home/u/proj/d", "/home/u/proj/d/new", "/home/u/proj/d/e/f"}, []shared.Entry{mount(shared.ReadOnly, "/cache/dir", "/home/u/proj/d/new")},
			"mask /home/u/proj/d"},
		{[]string{"/home/u/proj/d", "/home/u/proj/d/e/f"}, []shared.Entry{mount(shared.ReadWrite, "/home/u/proj/d/e", "/home/u/proj/d/e")},
			"tmpfs /home/u/proj/d bind /home/u/proj/d/e mask /home/u/proj/d/e/f remount-ro /home/u/proj/d"},
	} {
		spec := &shared.Spec{Table: append(hide(tt.hidden...), tt.shown...)}
		if !slices.Contains(tt.hidden, ws.Path) {
			spec.Table = append(spec.Table, ws)
		} else {
			spec.Table = append(spec.Table, mount(shared.ReadWrite, "/home/u/proj", "/x"), mount(shared.ReadOnly, "/home/u", "/home/u"))
		}
		ops, err := Plan(gather(tree, 1000, 0), &Support{}, spec)
		if err != nil {
			t.Errorf("%q: %v", tt.hidden, err)
			continue
		}
		var got []string
		for _, o := range ops {
			if o.Why == "deny_paths[0]" && o.Kind != holder.Pin || o.Why == "bind_paths[7]" && o.Dest != ws.Path && paths.Inside(ws.Path, o.Dest) {
				got = append(got, o.Kind.String()+" "+o.Dest)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %q, want %q", tt.hidden, got, tt.want)
		}
	}
	for _, p := range []string{"/", "/proc", "/dev"} {
		if _, err := Plan(gather(tree, 1000, 0), &Support{}, &shared.Spec{Table: hide(p)}); !errors.Is(err, shared.ErrInvalidSpec) {
			t.Errorf("%s hidden: %v", p, err)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	f := gather(distributions["debian"], 1000, 0)
	ws := mount(shared.ReadWrite, "/home/u/proj", "/home/u/proj")
	for _, e := range []shared.Entry{{Path: "/home/u/proj/none"}, {Path: "/home/u/proj/none/deep"}, {Path: "/nowhere"}, {Path: "/x", Source: "/none", Access: shared.ReadOnly}, {Path: "/x", Source: "/none", Access: shared.ReadWrite}} {
		for missing, refused := range map[shared.Missing]bool{shared.MissingRefuse: true, shared.MissingHold: true, shared.MissingIgnore: false} {
			e.Missing, e.Why = missing, "the entry"
			ops, err := Plan(f, &Support{}, &shared.Spec{Table: []shared.Entry{ws, e}})
			whole, _ := errors.AsType[*shared.Error](err)
			if refused && (whole == nil || whole.Kind != shared.ErrInvalidSpec || whole.Attribute != "the entry") || !refused && err != nil {
				t.Errorf("%+v: %v", e, err)
			}
			if slices.ContainsFunc(ops, func(o holder.Op) bool { return o.Why == "the entry" }) {
				t.Errorf("%+v: %v", e, ops)
			}
		}
	}
	// What something else hides is there as far as this sandbox goes.
	spec := &shared.Spec{Table: append(hide("/home/u/proj/src"), ws, shared.Entry{Path: "/home/u/proj/src/a", Why: "the entry"})}
	if _, err := Plan(f, &Support{}, spec); err != nil {
		t.Error(err)
	}
}

// What a command can make costs no more than is bounded, and the refusal names where
// it lies: ten directories of thousands are told from one of a few.
func TestPlansAreBounded(t *testing.T) {
	t.Parallel()
	tree := fakeTree{"/usr": "/", "/bin": "->usr/bin", "/usr/bin": "/"}
	ws := mount(shared.ReadWrite, "/ws", "/ws")
	dirs := func(dir string, n int, beneath string) (table []shared.Entry) {
		for i := range n {
			p := fmt.Sprintf("%s/%d%s/.env", dir, i, beneath)
			tree[p] = ""
			table = append(table, hide(p)...)
		}
		return table
	}
	few, many, deep := dirs("/ws/a", 10, ""), dirs("/ws/b/c", 1000, ""), dirs("/ws/d\n", 100, strings.Repeat("/e", 100))
	long := dirs("/ws/f", 200, strings.Repeat("/"+strings.Repeat("g", 200), 12))
	known := gather(tree, 1000, 0)
	if ops, err := Plan(known, &Support{}, &shared.Spec{Table: slices.Concat([]shared.Entry{ws}, few, many)}); err != nil || len(ops) < 2010 {
		t.Errorf("%d steps, %v", len(ops), err)
	}
	for where, table := range map[string][]shared.Entry{`"/ws/d\n"`: slices.Concat([]shared.Entry{ws}, few, deep, many), `"/ws/f"`: append(long, ws)} {
		_, err := Plan(known, &Support{}, &shared.Spec{Table: table})
		if !errors.Is(err, shared.ErrInvalidSpec) || !strings.HasPrefix(err.Error(), "deny_paths: ") || !strings.Contains(err.Error(), " of them are in "+where) {
			t.Errorf("%s: %v", where, err)
		}
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	v := newView(fakeTree{})
	for _, o := range []holder.Op{
		{Kind: holder.ReadOnlyBind, Source: "/h", Dest: "/"}, {Kind: holder.Memory, Dest: "/a"}, {Kind: holder.Bind, Source: "/x", Dest: "/a/b/c"},
		{Kind: holder.Memory, Dest: "/d/e"}, {Kind: holder.Bind, Source: "/y", Dest: "/d"}, {Kind: holder.Memory, Dest: "/f"},
	} {
		v.add(o)
	}
	for p, want := range map[string]struct {
		cover string
		leads bool
	}{
		"/": {"/", true}, "/z": {"/", false}, "/a": {"/a", true}, "/a/b": {"/a", true}, "/a/b/c": {"/a/b/c", true}, "/a/b/c/d": {"/a/b/c", false}, "/a/bc": {"/a", false},
		"/d/e": {"/d", false}, "/d/e/f": {"/d", false}, "/f/g": {"/f", false},
	} {
		got := v.layers.cover(p)
		if got.dest != want.cover {
			t.Errorf("%s is covered by %s", p, got.dest)
		}
		if leads := got.dest == p || v.ways[p] > got.order; leads != want.leads {
			t.Errorf("%s leads to something: %t", p, leads)
		}
	}
}

func TestTempSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ memory, asked, want uint64 }{
		{0, 0, 64 << 20}, {8 << 30, 0, 2 << 30}, {64 << 30, 0, 4 << 30}, {1 << 20, 0, 64 << 20}, {8 << 30, 4096, 4096},
	} {
		if got := TempSize(tt.memory, &shared.Limits{TempSize: tt.asked}); got != tt.want {
			t.Errorf("TempSize(%d, %d) = %d, want %d", tt.memory, tt.asked, got, tt.want)
		}
	}
}

// FuzzPlan: whatever the paths are, the plan is refused or orders parents first.
func FuzzPlan(f *testing.F) {
	f.Add("/home/u/proj", "/home/u/proj", "/home/u/proj/src", "/home/u", uint8(1), uint8(0))
	f.Add("/cache/dir", "/--ro-bind", "/\n", "/\xff", uint8(0), uint8(1))
	f.Add("/cache/file", "/etc/passwd", "/usr", "/tmp", uint8(3), uint8(0))
	f.Add("/home/u/proj/l", "/bin/x", "/var/tmp/a/b", "/var/tmp", uint8(1), uint8(0))
	f.Add("/cache/dir", "/run/l", "/l/../x", "/lib64", uint8(2), uint8(1))
	tree := distributions["debian"].with(fakeTree{"/home/u/proj/l": "->/proc/self", "/home/u/proj/up": "->..", "/home/u/proj/self": "->self"})
	known := gather(tree, 0, 1<<30)
	f.Fuzz(func(t *testing.T, source, destination, mask, home string, kind, view uint8) {
		spec := &shared.Spec{
			Filesystem: shared.Filesystem(view % 2), Home: home,
			Table: []shared.Entry{
				{Source: "/home/u/proj", Path: "/home/u/proj", Access: shared.ReadWrite, Why: "workspace"},
				{Source: source, Path: destination, Access: shared.Access(1 + kind%4), Degradable: true, Why: "fuzz"},
			},
		}
		if spec.Table[1].Access == shared.Private {
			spec.Table[1].Source = ""
		}
		spec.Table = append(spec.Table, shared.Entry{Path: mask, Missing: shared.MissingIgnore, Why: "fuzz"})
		if spec.Validate() != nil {
			t.Skip()
		}
		ops, err := Plan(known, &Support{}, spec)
		if err != nil {
			if _, ok := errors.AsType[*shared.Error](err); !ok {
				t.Fatalf("an error without a name: %v", err)
			}
			return
		}
		for i, o := range ops {
			if !strings.HasPrefix(o.Dest, "/") || filepath.Clean(o.Dest) != o.Dest {
				t.Fatalf("destination %q", o.Dest)
			}
			if (o.Why == "fuzz" || o.Why == "home") && (o.Dest == "/" || paths.Inside("/proc", o.Dest) || paths.Inside("/dev", o.Dest)) {
				t.Fatalf("%+v", o)
			}
			for _, later := range ops[i+1:] {
				if o.Why == "fuzz" && later.Kind != holder.ReadOnly && later.Dest != o.Dest && paths.Inside(later.Dest, o.Dest) {
					t.Fatalf("%+v hides %+v", later, o)
				}
			}
		}
	})
}
