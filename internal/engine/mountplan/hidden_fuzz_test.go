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

// hiddenTree is the model file system of FuzzHidden, and hiddenPaths what can be
// asked to be hidden in it.
var (
	hiddenTree = distributions["debian"].with(fakeTree{
		"/home/u/proj/a/f": "", "/home/u/proj/a/b/f": "", "/home/u/proj/a/b/c/f": "", "/home/u/proj/a-b/f": "", "/home/u/proj/d": "/", "/home/u/proj/e/f": "",
		"/home/u/proj/link": "->a/b", "/home/u/proj/a/up": "->../e", "/home/u/proj/out": "->/cache/dir/g",
		"/cache/dir/g": "", "/cache/dir/h/i": "",
	})
	hiddenPaths = [...]string{
		"/home/u/proj/a", "/home/u/proj/a/f", "/home/u/proj/a/b", "/home/u/proj/a/b/f", "/home/u/proj/a/b/c", "/home/u/proj/a/b/c/f", "/home/u/proj/a-b",
		"/home/u/proj/a-b/f", "/home/u/proj/d", "/home/u/proj/d/g", "/home/u/proj/d/h/i", "/home/u/proj/e/f", "/home/u/proj/link", "/home/u/proj/link/f",
		"/home/u/proj/a/up/f", "/home/u/proj/out", "/home/u/proj/none/f", "/home/u/proj/e", "/cache/dir/g", "/cache/dir/h", "/usr/bin/sh",
	}
)

// FuzzHidden: whatever is hidden, and whatever is mounted around it, nothing of it
// shows but by deeper entries, and no directory above it that a command can write to
// can be renamed.
func FuzzHidden(f *testing.F) {
	f.Add(uint32(1<<3|1<<5), uint8(0))
	f.Add(uint32(1<<0|1<<3|1<<6), uint8(1|2))
	f.Add(uint32(1<<12|1<<14|1<<15), uint8(4|16))
	f.Add(uint32(1<<21-1), uint8(31))
	f.Add(uint32(1<<8|1<<9|1<<18), uint8(4|8|16))
	f.Fuzz(func(t *testing.T, chosen uint32, around uint8) {
		spec := &shared.Spec{Table: []shared.Entry{mount(shared.ReadWrite, "/home/u/proj", "/home/u/proj")}}
		for i, more := range []shared.Entry{
			mount(shared.ReadOnly, "/home/u/proj/a", "/home/u/proj/a"), mount(shared.Private, "", "/home/u/proj/a/b"),
			mount(shared.ReadWrite, "/cache/dir", "/home/u/proj/d"), mount(shared.ReadOnly, "/cache/dir/h", "/home/u/proj/d/h"),
			mount(shared.ReadWrite, "/cache/dir", "/cache/dir"),
		} {
			if around&(1<<i) != 0 {
				spec.Table = append(spec.Table, more)
			}
		}
		known := gather(hiddenTree, 1000, 0)
		open, err := Plan(known, &Support{}, spec)
		if err != nil {
			return
		}
		hidden := map[string]bool{} // where what is hidden leads to
		for i, p := range hiddenPaths {
			if chosen&(1<<i) == 0 {
				continue
			}
			if !slices.ContainsFunc(spec.Table, func(e shared.Entry) bool { return e.Path == p }) {
				spec.Table = append(spec.Table, hide(p)...)
				if at, shows := leadsTo(open, p, 0); shows {
					hidden[at] = true
				}
			}
		}
		ops, err := Plan(known, &Support{}, spec)
		if err != nil && strings.Contains(err.Error(), "which a command can change") {
			return
		} else if err != nil {
			t.Fatalf("with what is hidden alone: %v", err)
		}
		shown := map[string]bool{}
		for _, e := range spec.Table {
			shown[e.Path] = e.Access != shared.Hidden
		}
		for p := range hidden {
			fixed(t, ops, p)
		}
		// Of the entries above a file the deepest decides, and of two one that hides.
		for p := range hiddenTree {
			for at := range paths.Up(p) {
				if hidden[at] {
					if got := lookAt(ops, p); !strings.HasPrefix(got, "mask") && !strings.HasPrefix(got, fmt.Sprint(holder.MountPoints, 0o755, mountPointsSize)) {
						t.Errorf("%s shows as %s: %v", p, got, ops)
					}
				}
				if hidden[at] || shown[at] {
					break
				}
			}
		}
	})
}

// leadsTo gives where a path leads in the view that ops make of hiddenTree, name by
// name, and whether anything of the host is there.
func leadsTo(ops []holder.Op, p string, links int) (string, bool) {
	at := "/"
	names := strings.Split(p[1:], "/")
	for i, name := range names {
		at = path.Join(at, name)
		j := coverOf(ops, at)
		if j < 0 || ops[j].Kind == holder.Memory || ops[j].Kind == holder.MountPoints {
			continue // a directory that leads to mounts, or nothing
		}
		e, _ := hiddenTree.lstat(path.Join(ops[j].Source, strings.TrimPrefix(at, ops[j].Dest)))
		switch {
		case e.kind == absent || links > 10:
			return "", false
		case e.kind == symlink:
			target := e.target
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(at), target)
			}
			return leadsTo(ops, path.Join(append([]string{target}, names[i+1:]...)...), links+1)
		}
	}
	j := coverOf(ops, at)
	return at, j >= 0 && ops[j].Kind != holder.Memory && ops[j].Kind != holder.MountPoints
}

// fixed wants each directory between a writable mount and what is hidden in it
// to be mounted on.
func fixed(t *testing.T, ops []holder.Op, p string) {
	t.Helper()
	mounted := map[string]bool{}
	for _, o := range ops {
		if container(o) || o.Kind == holder.HideDirectory {
			mounted[o.Dest] = true
		}
	}
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		writable := false
		for _, o := range ops { // the last that is no pin decides
			if container(o) && o.Kind != holder.Pin && paths.Inside(o.Dest, dir) {
				writable = (o.Kind == holder.Bind || o.Kind == holder.Overlay) && o.Dest != dir
			}
		}
		if writable && !mounted[dir] && !hidden(ops, dir) {
			t.Errorf("%s can be renamed, and %s with it: %v", dir, p, ops)
		}
	}
}

// hidden reports whether a path lies beneath something that is hidden.
func hidden(ops []holder.Op, p string) bool {
	for _, o := range ops {
		if (o.Kind == holder.HideDirectory || o.Kind == holder.HideFile) && paths.Inside(o.Dest, p) {
			return true
		}
	}
	return false
}

// coverOf is the step that what lies at p comes from: of those that hold it,
// the last.
func coverOf(ops []holder.Op, p string) int {
	for i, o := range slices.Backward(ops) {
		if container(o) && paths.Inside(o.Dest, p) {
			return i
		}
	}
	return -1
}

// container reports whether o lays a tree over its destination.
func container(o holder.Op) bool {
	switch o.Kind {
	case holder.ReadOnlyBind, holder.Bind, holder.Memory, holder.MountPoints, holder.Processes, holder.Devices, holder.Overlay, holder.Home, holder.Pin:
		return true
	}
	return false
}
