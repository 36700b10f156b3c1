package view

import (
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// InsidePath gives the path inside at which an entry shows a path of the host.
func InsidePath(spec *shared.Spec, host string) (at string, ok bool) {
	deepest := -1
	for _, e := range spec.Table {
		if !e.Access.Shows() || !paths.Inside(e.Source, host) || len(e.Source) <= deepest {
			continue
		}
		p := paths.Move(host, e.Source, e.Path)
		if _, shown := shared.Cover(spec.Table, p); shown == host {
			deepest, at = len(e.Source), p
		}
	}
	return at, deepest >= 0
}

// Shows gives the path inside at which a command of spec sees a path of the host:
// that itself, where it shows there or something else does; "" where nothing does. Of
// what lies beneath the table it knows the directories and not what of them an
// engine leaves out.
func Shows(spec *shared.Spec, p string) string {
	if cover, _ := shared.Cover(spec.Table, p); cover != nil && cover.Access.Shows() {
		return p
	} else if at, ok := InsidePath(spec, p); ok {
		return at
	} else if cover == nil && beneathTable(spec.Filesystem, spec.Home, p) {
		return p
	}
	// A directory on the way to an entry is there as well.
	if slices.ContainsFunc(spec.Table, func(e shared.Entry) bool { return e.Access.Shows() && paths.Inside(p, e.Path) }) {
		return p
	}
	return ""
}

// WritableInside reports whether a command can write at a path inside what is
// still there for commands of other sessions. A session's overlay is not: what is put
// there ends with it.
func WritableInside(spec *shared.Spec, p string) bool {
	deepest, writable := "", false
	cover := func(dir string, w bool) {
		if paths.Inside(dir, p) && len(dir) >= len(deepest) {
			deepest, writable = dir, w
		}
	}
	// What is in /proc leads wherever a process wants it to.
	for _, scratch := range [...]string{"/tmp", "/var/tmp", "/run", "/dev", "/proc", "/private/tmp", "/private/var/tmp"} {
		cover(scratch, true)
	}
	if spec.Home != "" {
		cover(spec.Home, true)
	}
	for _, e := range spec.Table {
		cover(e.Path, outlasts(&e) || e.Access == shared.Private)
	}
	return writable
}

// Creatable reports whether a command could create a path of the host.
func Creatable(spec *shared.Spec, host string) bool {
	for _, e := range spec.Table {
		if !e.Access.Shows() || !paths.Inside(e.Source, host) {
			continue
		}
		if cover, shown := shared.Cover(spec.Table, paths.Move(host, e.Source, e.Path)); shown == host && outlasts(cover) {
			return true
		}
	}
	return false
}

// outlasts reports whether what a command writes in an entry is there for the next one, of
// whatever session. An overlay that nothing may take the place of is a review's.
func outlasts(e *shared.Entry) bool {
	return e.Access == shared.ReadWrite || e.Access == shared.Overlay && !e.Degradable
}

// UsableInPath reports whether a directory may stand in a command's PATH: neither
// it nor what symlinks in it lead to is where a command could plant a program for
// the next one. follow is Facts.Follow. What cannot be followed is of no use there.
func UsableInPath(spec *shared.Spec, dir string, follow func(string) Way) bool {
	clean := path.Clean(dir)
	host := dir // as it is written: after a symlink, a ".." is not what Clean takes it for
	cover, at := shared.Cover(spec.Table, clean)
	switch {
	case cover != nil && cover.Access == shared.Hidden:
		return false
	case at != "" && at != clean:
		host = at
	}
	way := follow(host)
	return way.Err == nil && !WritableInside(spec, clean) && !Creatable(spec, way.End) &&
		(way.End == path.Clean(host) || !WritableInside(spec, way.End))
}

// HostPaths gives the host's path of what an entry of a table is about; "" where
// that is nothing of the host's.
func HostPaths(table []shared.Entry) func(e *shared.Entry) string {
	covers := shared.Covers(table)
	return func(e *shared.Entry) string {
		if e.Access != shared.Hidden {
			return e.Source
		}
		if e.Why == OriginAbove {
			return "" // it lies in the private home, or in /tmp
		}
		cover, dir := covers(path.Dir(e.Path))
		switch {
		case cover == nil:
			return e.Path // of the operating system's view
		case dir == "":
			return ""
		}
		return path.Join(dir, path.Base(e.Path))
	}
}

// Overlays lists where what is written lasts for the session.
func Overlays(spec *shared.Spec) (list []string) {
	for _, m := range spec.Table {
		if m.Access == shared.Overlay && m.Degradable && !spec.Unconfined { // a review's is kept
			list = append(list, m.Path)
		}
	}
	return list
}
