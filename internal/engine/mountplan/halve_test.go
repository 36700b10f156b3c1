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
func flat(t *testing.T, name string, h Halves) []holder.Op {
	t.Helper()
	var ops []holder.Op
	tree := func(at, dest string) {
		for _, s := range h.Shared {
			switch {
			case !paths.Inside(at, s.Dest) || s.Kind == holder.Root:
			case s.Kind == holder.Directory && strings.HasSuffix(s.Dest, "/pts"): // to mount on
			default:
				if s.Kind == holder.Devices {
					s.Size = 0 // the console
				}
				s.Dest = path.Join(dest, strings.TrimPrefix(s.Dest, at))
				ops = append(ops, s)
			}
		}
	}
	tree("/0", "/")
	for _, o := range h.Command {
		o.Dest = strings.TrimPrefix(o.Dest, "/0")
		switch o.Kind {
		case holder.Move:
			tree(o.Source, o.Dest)
			continue
		case holder.Pseudoterminals, holder.Console: // in what a plan calls devices
			continue
		case holder.Seal:
			o.Kind, o.Source = holder.ReadOnlyBind, o.Dest
		case holder.OwnOverlay:
			o.Kind = holder.Overlay
		case holder.Bind, holder.ReadOnlyBind, holder.Overlay, holder.Home, holder.Devices, holder.MountPoints:
			t.Fatalf("%s: a sandbox has a step %v", name, o.Kind)
		}
		ops = append(ops, o)
	}
	return ops
}

// lookAt says what is at p inside when ops have been carried out.
func lookAt(ops []holder.Op, p string) string {
	at, what, readOnly := "/", "fresh", false
	for _, o := range ops {
		rel := strings.TrimPrefix(p, o.Dest)
		switch {
		case o.Kind == holder.ReadOnly:
			readOnly = readOnly || at == o.Dest
		case !paths.Inside(o.Dest, p):
		case o.Kind == holder.Pin:
			if at != p {
				what += " pinned at " + o.Dest
			}
		case container(o):
			at, readOnly = o.Dest, o.Kind == holder.ReadOnlyBind
			what = fmt.Sprint(o.Kind, o.Perms, o.Size, path.Join(o.Source, rel))
			if o.Kind == holder.Home {
				what = fmt.Sprint(o.Kind, o.Perms, o.Size, rel)
			}
		case o.Kind == holder.HideDirectory || rel == "":
			what = fmt.Sprint(o.Kind, o.Source, o.Perms)
			if o.Kind == holder.Directory && strings.HasPrefix(at, "/") && o.Perms == 0o755 {
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
				ops, err := Plan(gather(tree, uid, 8<<30), &Support{Holder: true}, spec)
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

func same(t *testing.T, name string, ops []holder.Op) {
	t.Helper()
	for i := range 4 {
		terminal, own := i&1 != 0, i&2 != 0
		h := Halve(ops, terminal, own)
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
	ops, err := Plan(gather(distributions["debian"], 1000, 8<<30), &Support{Holder: true}, spec)
	if err != nil {
		t.Fatal(err)
	}
	h := Halve(ops, false, false)
	golden(t, "session", showSteps(h.Shared)+"\n"+showSteps(h.Command))
}

// showSteps is for people.
func showSteps(steps []holder.Op) string {
	var b strings.Builder
	for _, o := range steps {
		fmt.Fprintf(&b, "%-11s %s", o.Kind, o.Dest)
		if o.Source != "" {
			fmt.Fprintf(&b, " <- %s", o.Source)
		}
		fmt.Fprintf(&b, "  # %s\n", o.Why)
	}
	return b.String()
}

func TestPinsBetweenMountAndMask(t *testing.T) {
	t.Parallel()
	ws := holder.Op{Kind: holder.Bind, Source: "/src", Dest: "/ws"}
	mask := func(p string) holder.Op { return holder.Op{Kind: holder.HideFile, Dest: p, Why: "deny"} }
	for name, tt := range map[string]struct {
		ops, masks []holder.Op
		want       string
	}{
		"none":              {[]holder.Op{ws}, nil, "/ws"},
		"at the top":        {[]holder.Op{ws}, []holder.Op{mask("/ws/.env")}, "/ws /ws/.env"},
		"deep":              {[]holder.Op{ws}, []holder.Op{mask("/ws/a/b/c/.env")}, "/ws /ws/a<-/src/a /ws/a/b<-/src/a/b /ws/a/b/c<-/src/a/b/c /ws/a/b/c/.env"},
		"shared":            {[]holder.Op{ws}, []holder.Op{mask("/ws/a/b/.env"), mask("/ws/a/c/.env")}, "/ws /ws/a<-/src/a /ws/a/b<-/src/a/b /ws/a/b/.env /ws/a/c<-/src/a/c /ws/a/c/.env"},
		"read-only":         {[]holder.Op{{Kind: holder.ReadOnlyBind, Source: "/src", Dest: "/ws"}}, []holder.Op{mask("/ws/a/.env")}, "/ws /ws/a/.env"},
		"memory":            {[]holder.Op{{Kind: holder.Memory, Dest: "/ws"}}, []holder.Op{mask("/ws/a/.env")}, "/ws /ws/a/.env"},
		"overlay":           {[]holder.Op{{Kind: holder.Overlay, Source: "/src", Dest: "/ws"}}, []holder.Op{mask("/ws/a/.env")}, "/ws /ws/a<-/src/a /ws/a/.env"},
		"read-only inside":  {[]holder.Op{ws, {Kind: holder.ReadOnlyBind, Source: "/x", Dest: "/ws/ro"}}, []holder.Op{mask("/ws/ro/a/.env")}, "/ws /ws/ro /ws/ro/a/.env"},
		"behind its parent": {[]holder.Op{ws, {Kind: holder.Bind, Source: "/x", Dest: "/ws/a/in"}}, []holder.Op{mask("/ws/a/.env")}, "/ws /ws/a<-/src/a /ws/a/.env /ws/a/in"},
		"memory inside":     {[]holder.Op{ws, {Kind: holder.Memory, Dest: "/ws/a/in"}}, nil, "/ws /ws/a<-/src/a /ws/a/in"},
		"in what is hidden": {[]holder.Op{ws, {Kind: holder.HideDirectory, Dest: "/ws/a"}, {Kind: holder.Bind, Source: "/x", Dest: "/ws/a/b/in"}}, nil, "/ws /ws/a /ws/a/b/in /ws/a"},
	} {
		var got []string
		for _, o := range pinned(slices.Concat(tt.ops, tt.masks)) {
			s := o.Dest
			if o.Kind == holder.Pin {
				s += "<-" + o.Source
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestNestedOverlays(t *testing.T) {
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
		got := NestedOverlays(&shared.Spec{Session: shared.Session{Dir: tt.dir}, Table: tt.mounts})
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[tt.want] == "") {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
