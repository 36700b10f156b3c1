//go:build unix

package facts

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
)

// A mount shows a part of a file system.
type mount struct {
	dev        uint64 // of the file system, which may differ from that of its files
	root       string // the part that it shows
	at         string
	id, parent string // parent is the mount that it lies on; "" for the root
}

// mounts are those of this process.
func mounts() (list []mount, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || !strings.HasPrefix(fields[4], "/") {
			continue
		}
		major, minor, _ := strings.Cut(fields[2], ":")
		high, _ := strconv.ParseUint(major, 10, 32)
		low, _ := strconv.ParseUint(minor, 10, 32)
		list = append(list, mount{unix.Mkdev(uint32(high), uint32(low)), unescaped(fields[3]), unescaped(fields[4]), fields[0], fields[1]})
	}
	for i, m := range list {
		if !slices.ContainsFunc(list, func(on mount) bool { return on.id == m.parent && on.id != m.id }) {
			list[i].parent = ""
		}
	}
	return list, lines.Err()
}

// unescaped replaces octal escapes, such as \040 for a space.
func unescaped(field string) string {
	if text, err := strconv.Unquote(`"` + strings.ReplaceAll(field, `"`, `\"`) + `"`); err == nil {
		return text
	}
	return field
}

// mountOf returns the mount of a path without symlinks. It walks as the kernel does: of the mounts that
// lie on one mount, the first on the way covers those beyond it, whenever they were made.
func mountOf(list []mount, p string) (of mount) {
	for next := -1; ; next = -1 {
		for i, m := range list {
			if m.parent == of.id && paths.Inside(m.at, p) && (next < 0 || len(m.at) < len(list[next].at)) {
				next = i
			}
		}
		if next < 0 {
			return of
		}
		of = list[next]
	}
}

// in is the path in the file system of a path on the mount.
func (m mount) in(p string) string { return filepath.Join(m.root, strings.TrimPrefix(p, m.at)) }

// mountsIn are what shows in a directory without symlinks: a part of its own mount, and those beneath.
func mountsIn(table []mount, dir string) []mount {
	on := mountOf(table, dir)
	list := []mount{{dev: on.dev, root: on.in(dir), at: dir}}
	for _, m := range table {
		if m.at != dir && paths.Inside(dir, m.at) {
			list = append(list, m)
		}
	}
	return list
}

// alsoAt returns where in a directory a path without symlinks shows too, by another mount of the same
// file system; "" if nowhere.
func alsoAt(table []mount, dir, p string) string {
	on := mountOf(table, p)
	if on.at == "" {
		return ""
	}
	for _, m := range mountsIn(table, dir) {
		if at := paths.Move(on.in(p), m.root, m.at); m.dev == on.dev && paths.Inside(m.root, on.in(p)) && at != p {
			return at
		}
	}
	return ""
}

// mountedAgain returns paths of the host's own, and where they show in what commands write by another
// mount; and the mounts there that show the same once more, where nothing is protected.
func (f *lookup) mountedAgain(own []view.HostPath) []view.HostPath {
	table, _ := f.mounts() // none on a system without /proc
	all := slices.Clip(own)
	for _, dir := range f.writable {
		for _, o := range own {
			way := f.Follow(o.Path)
			if at := alsoAt(table, dir, way.End); way.Err == nil && at != "" {
				o.Path = at
				all = append(all, o)
			}
		}
		for _, m := range mountsIn(table, dir)[1:] {
			same := func(src string) bool {
				on := mountOf(table, src)
				return on.dev == m.dev && !paths.Inside(m.at, src) && (paths.Inside(m.root, on.in(src)) || paths.Inside(on.in(src), m.root))
			}
			if slices.ContainsFunc(f.writable, same) {
				all = append(all, view.HostPath{Path: m.at, Description: "another mount of what commands write", Kind: view.OwnMount})
			}
		}
	}
	return all
}

// MountBeneath returns a mount beneath one of some directories, "" if there is none.
func MountBeneath(dirs []string) string {
	list, _ := mounts()
	for _, m := range list {
		if slices.ContainsFunc(dirs, func(dir string) bool { return m.at != dir && paths.Inside(dir, m.at) }) {
			return m.at
		}
	}
	return ""
}
