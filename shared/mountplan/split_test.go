package mountplan

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/holder"
)

// sessionful is a Spec with one of everything that a session has.
func sessionful() *shared.Spec {
	spec := full()
	spec.Session = shared.Session{ID: "s", Dir: "/run/user/1000/s"}
	spec.Table = append(spec.Table,
		shared.Entry{Source: "/home/u/proj", Path: "/tmp/deep/dir", Access: shared.ReadWrite, Why: "bind_paths[3]"},
		shared.Entry{Source: "/cache/file", Path: "/tmp/deep/dir/src/a", Why: "bind_paths[4]", Access: shared.ReadOnly},
		shared.Entry{Source: "/cache/file", Path: "/tmp/file", Why: "bind_paths[5]", Access: shared.ReadOnly},
		shared.Entry{Source: "/cache/dir", Path: "/tmp/above/dir", Access: shared.ReadWrite, Why: "bind_paths[6]"},
		shared.Entry{Source: "/cache/dir", Path: "/home/u/above/dir", Access: shared.ReadWrite, Why: "bind_paths[7]"})
	return spec
}

var sessionHidden = hide("/tmp/above", "/home/u/above", "/home/u/proj/.git", "/home/u/proj/src/b", "/tmp/deep/dir/.git/config")

// flat gives a divided plan as one list again, as bubblewrap and the holder carry
// it out together.
func flat(p Prepared) []Op {
	kinds := map[holder.Kind]Kind{
		holder.Bind: Bind, holder.ReadOnlyBind: ROBind, holder.Overlay: Overlay, holder.Home: Home, holder.Directory: Dir,
		holder.File: File, holder.Symlink: Symlink, holder.ReadOnly: RemountRO, holder.Pin: Pin,
		holder.HideFile: MaskFile, holder.HideDirectory: MaskDir, holder.Devices: Dev, holder.Memory: Shell,
	}
	var ops []Op
	rest := slices.Clone(p.Rest)
	for _, o := range p.Late {
		switch o.Kind {
		case holder.Bind:
			rest = append(rest, Op{Kind: Bind, Source: holder.Trees + o.Source, Dest: o.Dest})
		case holder.ReadOnlyBind:
			rest = append(rest, Op{Kind: ROBind, Source: o.Dest, Dest: o.Dest})
		case holder.HideFile:
			rest = append(rest, Op{Kind: MaskFile, Dest: o.Dest})
		}
	}
	for _, o := range rest {
		tree, ok := strings.CutPrefix(o.Source, holder.Trees)
		if o.Kind == ROBind && o.Source == holder.Null {
			o.Kind, o.Source = MaskFile, ""
		}
		if o.Kind != Bind && o.Kind != Tree || !ok {
			ops = append(ops, o)
			continue
		}
		for _, s := range p.Steps {
			if !paths.Inside(tree, s.Dest) || s.Kind == holder.Root || s.Kind == holder.Terminals || s.Kind == holder.Point {
				continue
			}
			ops = append(ops, Op{Kind: kinds[s.Kind], Source: s.Source, Dest: path.Join(o.Dest, strings.TrimPrefix(s.Dest, tree)), Perms: s.Perms, Size: s.Size})
		}
	}
	return ops
}

// sameHalved compares a plan with its halves, as a holder and the init carry them out.
func sameHalved(t *testing.T, name string, ops []Op, h Halves) {
	t.Helper()
	if len(h.Tree.Why) != len(h.Tree.Ops) || len(h.Own.Why) != len(h.Own.Ops) {
		t.Fatalf("%s: reasons and steps differ in number", name)
	}
	p := Prepared{Steps: h.Tree.Ops, Rest: []Op{{Kind: Bind, Source: treePath(0), Dest: "/"}}}
	for _, o := range h.Own.Ops {
		dest := strings.TrimPrefix(o.Dest, "/0")
		switch o.Kind {
		case holder.Graft:
			p.Rest = append(p.Rest, Op{Kind: Bind, Source: holder.Trees + o.Source, Dest: dest})
		case holder.Memory:
			p.Rest = append(p.Rest, Op{Kind: Tmpfs, Dest: dest, Perms: o.Perms, Size: o.Size})
		case holder.Processes:
			p.Rest = append(p.Rest, Op{Kind: Proc, Dest: dest})
		case holder.Seal:
			p.Rest = append(p.Rest, Op{Kind: ROBind, Source: dest, Dest: dest})
		case holder.HideFile:
			p.Rest = append(p.Rest, Op{Kind: MaskFile, Dest: dest})
		case holder.HideDirectory:
			p.Rest = append(p.Rest, Op{Kind: MaskDir, Dest: dest})
		case holder.Symlink:
			p.Rest = append(p.Rest, Op{Kind: Symlink, Source: o.Source, Dest: dest})
		case holder.Directory:
			p.Rest = append(p.Rest, Op{Kind: Dir, Dest: dest, Perms: o.Perms})
		case holder.File:
			p.Rest = append(p.Rest, Op{Kind: File, Source: o.Source, Dest: dest, Perms: o.Perms})
		case holder.ReadOnly:
			p.Rest = append(p.Rest, Op{Kind: RemountRO, Dest: dest})
		case holder.Pin:
			p.Rest = append(p.Rest, Op{Kind: Pin, Dest: dest})
		case holder.Pseudoterminals, holder.Console: // a launcher has them in its devices
		default:
			t.Fatalf("%s: a sandbox has a step of kind %d", name, o.Kind)
		}
	}
	// What is only there to be mounted on is in its place before.
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(o holder.Op) bool { return o.Kind == holder.Directory && strings.HasSuffix(o.Dest, "/pts") })
	for i := range p.Steps {
		if p.Steps[i].Kind == holder.Devices {
			p.Steps[i].Size = 0 // the console
		}
	}
	again := flat(p)
	for _, o := range ops {
		for _, at := range []string{o.Dest, path.Join(o.Dest, "below"), path.Dir(o.Dest)} {
			if a, b := lookAt(ops, at), lookAt(again, at); a != b {
				t.Errorf("%s: %s is %q, and halved %q", name, at, a, b)
			}
		}
	}
}

// lookAt says what is at p inside when ops have been carried out.
func lookAt(ops []Op, p string) string {
	at, what, readOnly := "/", "fresh", false
	for _, o := range ops {
		rel := strings.TrimPrefix(p, o.Dest)
		switch {
		case o.Kind == RemountRO:
			readOnly = readOnly || at == o.Dest
		case !paths.Inside(o.Dest, p):
		case o.Kind == Pin:
			if at != p {
				what += " pinned at " + o.Dest
			}
		case o.container():
			at, readOnly = o.Dest, o.Kind == ROBind
			what = fmt.Sprint(o.Kind, o.Perms, o.Size, path.Join(o.Source, rel))
			if o.Kind == Home {
				what = fmt.Sprint(o.Kind, o.Perms, o.Size, rel)
			}
		case o.Kind == MaskDir || rel == "":
			what = fmt.Sprint(o.Kind, o.Source, o.Perms)
			if o.Kind == Dir && strings.HasPrefix(at, "/") && o.Perms == 0o755 {
				what = "fresh" // a place to mount on
			}
		}
	}
	return fmt.Sprintf("%s, read-only %v", what, readOnly)
}

// A plan and its two parts show the same.
func TestDivideShowsTheSame(t *testing.T) {
	t.Parallel()
	for name, tree := range distributions {
		for _, uid := range []uint32{0, 1000} {
			for _, kind := range []shared.Filesystem{shared.FilesystemMinimal, shared.FilesystemHost} {
				spec := sessionful()
				spec.Filesystem = kind
				if kind == shared.FilesystemHost {
					spec.Table = spec.Table[:3]
				}
				spec.Table = append(spec.Table, sessionHidden...)
				ops, err := Plan(gather(tree, uid, 8<<30), &Held{Holder: true}, spec)
				if err != nil {
					if name == "debian" {
						t.Fatal(err)
					}
					continue // it lacks the directories of the Spec
				}
				same(t, fmt.Sprint(name, uid, kind), ops)
			}
		}
	}
}

func same(t *testing.T, name string, ops []Op) {
	t.Helper()
	for _, terminal := range []bool{true, false} {
		sameDivided(t, fmt.Sprint(name, " with a terminal ", terminal), ops, Divide(ops, terminal))
		sameHalved(t, fmt.Sprint(name, " halved, with a terminal ", terminal), ops, Halve(ops, terminal))
	}
}

func sameDivided(t *testing.T, name string, ops []Op, p Prepared) {
	t.Helper()
	if len(p.Why) != len(p.Steps) {
		t.Fatalf("%s: %d reasons for %d steps", name, len(p.Why), len(p.Steps))
	}
	again := flat(p)
	for _, o := range ops {
		for _, at := range []string{o.Dest, path.Join(o.Dest, "below"), path.Dir(o.Dest)} {
			if a, b := lookAt(ops, at), lookAt(again, at); a != b {
				t.Errorf("%s: %s is %q, and divided %q", name, at, a, b)
			}
		}
	}
}

func TestGoldenSession(t *testing.T) {
	t.Parallel()
	many, tree := slices.Clone(sessionHidden), fakeTree{}
	for i := range 20 {
		p := fmt.Sprintf("/home/u/proj/src/%d", i)
		many, tree[p] = append(many, hide(p)...), ""
	}
	for name, tt := range map[string]struct {
		uid    uint32
		hidden []shared.Entry
	}{"session": {1000, sessionHidden}, "session-late": {0, many}} {
		spec := sessionful()
		spec.Table = append(spec.Table, tt.hidden...)
		ops, err := Plan(gather(distributions["debian"].with(tree), tt.uid, 8<<30), &Held{Holder: true}, spec)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, showDivided(Divide(ops, false)))
	}
}

// showDivided is for people.
func showDivided(p Prepared) string {
	var b strings.Builder
	names := [...]string{"root", "bind", "ro-bind", "overlay", "home", "dir", "file", "symlink", "remount-ro", "pin", "hide", "hide-dir", "devices", "terminals", "point", "memory"}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%-11s %s", names[s.Kind], s.Dest)
		if s.Source != "" {
			fmt.Fprintf(&b, " <- %s", s.Source)
		}
		fmt.Fprintf(&b, "  # %s\n", p.Why[i])
	}
	b.WriteByte('\n')
	b.WriteString(show(p.Rest))
	for _, o := range p.Late {
		fmt.Fprintf(&b, "late %-6s %s <- %s\n", names[o.Kind], o.Dest, o.Source)
	}
	return b.String()
}

func TestPinsBetweenMountAndMask(t *testing.T) {
	t.Parallel()
	ws := Op{Kind: Bind, Source: "/src", Dest: "/ws"}
	mask := func(p string) Op { return Op{Kind: MaskFile, Dest: p, Why: "deny"} }
	for name, tt := range map[string]struct {
		ops, masks []Op
		want       string
	}{
		"none":              {[]Op{ws}, nil, "/ws"},
		"at the top":        {[]Op{ws}, []Op{mask("/ws/.env")}, "/ws /ws/.env"},
		"deep":              {[]Op{ws}, []Op{mask("/ws/a/b/c/.env")}, "/ws /ws/a<-/src/a /ws/a/b<-/src/a/b /ws/a/b/c<-/src/a/b/c /ws/a/b/c/.env"},
		"shared":            {[]Op{ws}, []Op{mask("/ws/a/b/.env"), mask("/ws/a/c/.env")}, "/ws /ws/a<-/src/a /ws/a/b<-/src/a/b /ws/a/b/.env /ws/a/c<-/src/a/c /ws/a/c/.env"},
		"read-only":         {[]Op{{Kind: ROBind, Source: "/src", Dest: "/ws"}}, []Op{mask("/ws/a/.env")}, "/ws /ws/a/.env"},
		"memory":            {[]Op{{Kind: Tmpfs, Dest: "/ws"}}, []Op{mask("/ws/a/.env")}, "/ws /ws/a/.env"},
		"overlay":           {[]Op{{Kind: Overlay, Source: "/src", Dest: "/ws"}}, []Op{mask("/ws/a/.env")}, "/ws /ws/a<-/src/a /ws/a/.env"},
		"read-only inside":  {[]Op{ws, {Kind: ROBind, Source: "/x", Dest: "/ws/ro"}}, []Op{mask("/ws/ro/a/.env")}, "/ws /ws/ro /ws/ro/a/.env"},
		"behind its parent": {[]Op{ws, {Kind: Bind, Source: "/x", Dest: "/ws/a/in"}}, []Op{mask("/ws/a/.env")}, "/ws /ws/a<-/src/a /ws/a/.env /ws/a/in"},
		"memory inside":     {[]Op{ws, {Kind: Tmpfs, Dest: "/ws/a/in"}}, nil, "/ws /ws/a<-/src/a /ws/a/in"},
		"in what is hidden": {[]Op{ws, {Kind: MaskDir, Dest: "/ws/a"}, {Kind: Bind, Source: "/x", Dest: "/ws/a/b/in"}}, nil, "/ws /ws/a /ws/a/b/in /ws/a"},
	} {
		var got []string
		for _, o := range pinned(slices.Concat(tt.ops, tt.masks)) {
			s := o.Dest
			if o.Kind == Pin {
				s += "<-" + o.Source
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	overlay := func(s string) shared.Entry { return shared.Entry{Source: s, Access: shared.Overlay} }
	for _, tt := range []struct {
		dir    string
		mounts []shared.Entry
		want   string
	}{
		{"/s", []shared.Entry{overlay("/a"), overlay("/b")}, ""},
		{"/s", []shared.Entry{overlay("/a/b"), overlay("/a")}, "/a/b"},
		{"/s", []shared.Entry{overlay("/a"), overlay("/a-b")}, ""},
		{"/s", []shared.Entry{overlay("/a"), overlay("/a")}, ""},
		{"/a/s", []shared.Entry{overlay("/a")}, "/a"},
		{"/a", []shared.Entry{overlay("/a/b")}, "/a/b"},
		{"", []shared.Entry{overlay("/a/b")}, ""},
	} {
		got := Overlap(&shared.Spec{Session: shared.Session{Dir: tt.dir}, Table: tt.mounts})
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[tt.want] == "") {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// A launcher mounts by path, through what a command that runs may have put there: such
// mounts are to be looked for, and no others, which would cost each command a look at the
// table of all mounts.
func TestMountsThatAreLookedFor(t *testing.T) {
	t.Parallel()
	spec := sessionful()
	spec.Table = append(spec.Table, shared.Entry{Path: "/home/u/proj/src", Access: shared.Private, Why: "tmpfs[1]"})
	spec.Table = append(slices.DeleteFunc(spec.Table, func(e shared.Entry) bool { return e.Path == "/home/u/proj/src/a" }), hide("/tmp/above", "/home/u/above")...)
	tree := distributions["debian"].with(fakeTree{"/scratch": "/", "/over": "/"})
	for view, want := range map[shared.Filesystem]string{
		shared.FilesystemMinimal: "/home/u/proj/src",
		shared.FilesystemHost:    "/home/u/proj/src /scratch /tmp /var/tmp",
	} {
		spec.Filesystem = view
		ops, err := Plan(gather(tree, 1000, 8<<30), &Held{Holder: true}, spec)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range Divide(ops, false).Rest {
			if o.Asked && (o.Kind == Tmpfs || o.Kind == Shell || o.hides()) {
				got = append(got, o.Dest)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v: %q, want %q", view, got, want)
		}
	}
}
