package view

import (
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// InsidePath returns the path inside at which an entry shows a path of the host.
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

// Shows returns the path inside at which a command of spec sees a path of the host: the same path,
// if that or something else shows there; "" if none does. Beneath the table it knows the
// directories, but not what an engine omits of them.
func Shows(spec *shared.Spec, p string) string {
	if cover, _ := shared.Cover(spec.Table, p); cover != nil && cover.Access.Shows() {
		return p
	} else if at, ok := InsidePath(spec, p); ok {
		return at
	} else if cover == nil && beneathTable(spec.Filesystem, spec.Home, p) {
		return p
	}
	// A directory above an entry exists too.
	if slices.ContainsFunc(spec.Table, func(e shared.Entry) bool { return e.Access.Shows() && paths.Inside(p, e.Path) }) {
		return p
	}
	return ""
}

// HasDevice reports whether commands of spec have a name of /dev.
func HasDevice(spec *shared.Spec, p string) bool {
	return slices.Contains(devices[:], p) || slices.Contains(spec.Devices, p)
}

// devices are the names of /dev that each sandbox has.
var devices = [...]string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/mqueue",
	"/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/console", "/dev/core",
}

// WritableInside reports whether a command can write, at a path inside, what commands of other
// sessions find later. A session's overlay does not count: it ends with the session.
func WritableInside(spec *shared.Spec, p string) bool {
	cover, _ := shared.Cover(spec.Table, p)
	// A process can make entries of /proc lead anywhere.
	for _, scratch := range [...]string{"/tmp", "/var/tmp", "/run", "/dev", "/proc", "/private/tmp", "/private/var/tmp", spec.Home} {
		if scratch != "" && paths.Inside(scratch, p) && (cover == nil || len(scratch) > len(cover.Path)) {
			return true
		}
	}
	// An overlay that cannot be degraded is a review's.
	return cover != nil && (cover.Access == shared.ReadWrite || cover.Access == shared.Private || cover.Access == shared.Overlay && !cover.Degradable)
}

// UsableInPath reports whether a directory may be in a command's PATH: no command can plant a
// program for the next one in it, or where its symlinks lead or can be led. A directory that cannot be
// followed is useless there; one through /proc/self leads the command elsewhere.
func (v *View) UsableInPath(spec *shared.Spec, dir string) bool {
	clean := path.Clean(dir)
	host := dir // as spelled: Clean is wrong for a ".." after a symlink
	cover, at := shared.Cover(spec.Table, clean)
	switch {
	case cover != nil && cover.Access == shared.Hidden:
		return false
	case at != "" && at != clean:
		host = at
	}
	way := v.facts.Follow(host)
	return way.Err == nil && v.replaceableLink(&way) == "" && !slices.ContainsFunc(way.Links, paths.ProcessSpecific) && !WritableInside(spec, clean) && !v.Creatable(way.End) &&
		(way.End == path.Clean(host) || !WritableInside(spec, way.End))
}

// HostPaths returns a function that finds the host's path of a table's entry; "" if it has none.
func HostPaths(table []shared.Entry) func(e *shared.Entry) string {
	covers := shared.Covers(table)
	return func(e *shared.Entry) string {
		if e.Access != shared.Hidden {
			return e.Source
		}
		if e.Why == OriginParent {
			return "" // it is in the private home, or in /tmp
		}
		cover, dir := covers(path.Dir(e.Path))
		switch {
		case cover == nil:
			return e.Path // in the operating system's view
		case dir == "":
			return ""
		}
		return path.Join(dir, path.Base(e.Path))
	}
}

// Overlays lists the paths whose changes last for the session.
func Overlays(spec *shared.Spec) (list []string) {
	for _, m := range spec.Table {
		if m.Access == shared.Overlay && m.Degradable && !spec.Unconfined { // the others are reviews'
			list = append(list, m.Path)
		}
	}
	return list
}
