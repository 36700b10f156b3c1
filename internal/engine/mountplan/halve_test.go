package mountplan

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
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

// flat gives a halved plan as one list again, as a holder and the init carry it out
// together.
func flat(t *testing.T, name string, h Halves) []Op {
	t.Helper()
	kinds := map[holder.Kind]Kind{
		holder.Bind: Bind, holder.ReadOnlyBind: ROBind, holder.Overlay: Overlay, holder.Home: Home, holder.Directory: Dir,
		holder.File: File, holder.Symlink: Symlink, holder.ReadOnly: RemountRO, holder.Pin: Pin,
		holder.HideFile: MaskFile, holder.HideDirectory: MaskDir, holder.Devices: Dev, holder.Memory: MountpointTmpfs,
	}
	var ops []Op
	tree := func(at, dest string) {
		for _, s := range h.Shared.Ops {
			switch {
			case !paths.Inside(at, s.Dest) || s.Kind == holder.Root:
			case s.Kind == holder.Directory && strings.HasSuffix(s.Dest, "/pts"): // to mount on
			default:
				if s.Kind == holder.Devices {
					s.Size = 0 // the console
				}
				ops = append(ops, Op{Kind: kinds[s.Kind], Source: s.Source, Dest: path.Join(dest, strings.TrimPrefix(s.Dest, at)), Perms: s.Perms, Size: s.Size})
			}
		}
	}
	tree("/0", "/")
	own := map[holder.Kind]Kind{
		holder.Memory: Tmpfs, holder.Processes: Proc, holder.HideFile: MaskFile, holder.HideDirectory: MaskDir, holder.Symlink: Symlink,
		holder.Directory: Dir, holder.File: File, holder.ReadOnly: RemountRO, holder.Pin: Pin, holder.Seal: ROBind, holder.OwnOverlay: Overlay,
	}
	for _, o := range h.Command.Ops {
		dest := strings.TrimPrefix(o.Dest, "/0")
		k, known := own[o.Kind]
		switch {
		case o.Kind == holder.Move:
			tree(o.Source, dest)
		case o.Kind == holder.Pseudoterminals, o.Kind == holder.Console: // in what a plan calls devices
		case !known:
			t.Fatalf("%s: a sandbox has a step of kind %d", name, o.Kind)
		case o.Kind == holder.Seal:
			ops = append(ops, Op{Kind: k, Source: dest, Dest: dest})
		default:
			ops = append(ops, Op{Kind: k, Source: o.Source, Dest: dest, Perms: o.Perms, Size: o.Size})
		}
	}
	return ops
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

// A plan and its two halves show the same.
func TestHalveShowsTheSame(t *testing.T) {
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
	for i := range 4 {
		terminal, own := i&1 != 0, i&2 != 0
		h := Halve(ops, terminal, own)
		if len(h.Shared.Why) != len(h.Shared.Ops) || len(h.Command.Why) != len(h.Command.Ops) {
			t.Fatalf("%s: reasons and steps differ in number", name)
		}
		again := flat(t, name, h)
		for _, o := range ops {
			for _, at := range []string{o.Dest, path.Join(o.Dest, "below"), path.Dir(o.Dest)} {
				if a, b := lookAt(ops, at), lookAt(again, at); a != b {
					t.Errorf("%s, with a terminal %v and own overlays %v: %s is %q, and halved %q", name, terminal, own, at, a, b)
				}
			}
		}
	}
}

func TestGoldenSession(t *testing.T) {
	t.Parallel()
	spec := sessionful()
	spec.Table = append(spec.Table, sessionHidden...)
	ops, err := Plan(gather(distributions["debian"], 1000, 8<<30), &Held{Holder: true}, spec)
	if err != nil {
		t.Fatal(err)
	}
	h := Halve(ops, false, false)
	golden(t, "session", showSteps(h.Shared)+"\n"+showSteps(h.Command))
}

// showSteps is for people.
func showSteps(s Steps) string {
	var b strings.Builder
	names := map[holder.Kind]string{
		holder.Root: "root", holder.Bind: "bind", holder.ReadOnlyBind: "ro-bind", holder.Overlay: "overlay", holder.Home: "home", holder.Directory: "dir",
		holder.File: "file", holder.Symlink: "symlink", holder.ReadOnly: "remount-ro", holder.Pin: "pin", holder.HideFile: "hide", holder.HideDirectory: "hide-dir",
		holder.Devices: "devices", holder.Memory: "memory", holder.Move: "graft", holder.Seal: "seal", holder.Processes: "proc", holder.Pseudoterminals: "pts", holder.Console: "console",
	}
	for i, o := range s.Ops {
		fmt.Fprintf(&b, "%-11s %s", names[o.Kind], o.Dest)
		if o.Source != "" {
			fmt.Fprintf(&b, " <- %s", o.Source)
		}
		fmt.Fprintf(&b, "  # %s\n", s.Why[i])
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
