//go:build unix

package facts

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// A mount shows a part of a file system.
type mount struct {
	dev  uint64 // of the file system, which may differ from that of its files
	root string // the part that it shows
	at   string // the mount point
	id   string
	on   string // the id of the mount that it lies on; empty if that is unknown
}

// mounts returns the mounts of this process.
func mounts() (list []mount, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return parseMounts(string(text)), err
}

// parseMounts parses the text of mountinfo.
func parseMounts(text string) (list []mount) {
	known := map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], "/") {
			continue
		}
		major, minor, _ := strings.Cut(fields[2], ":")
		high, _ := strconv.ParseUint(major, 10, 32)
		low, _ := strconv.ParseUint(minor, 10, 32)
		list = append(list, mount{unix.Mkdev(uint32(high), uint32(low)), proc.Unescaped.Replace(fields[3]), proc.Unescaped.Replace(fields[4]), fields[0], fields[1]})
		known[fields[0]] = true
	}
	for i, m := range list {
		if m.on == m.id || !known[m.on] {
			list[i].on = ""
		}
	}
	return list
}

// mountOf returns the mount of a path without symlinks, as the kernel finds it on the way there. The
// order of the table says nothing: at boot, older mounts are moved onto the root.
func mountOf(list []mount, p string) (of mount) {
	for {
		var next mount
		for _, m := range list {
			if m.on == of.id && paths.Inside(m.at, p) && (next.at == "" || len(m.at) < len(next.at)) {
				next = m
			}
		}
		if next.at == "" {
			return of
		}
		of = next
	}
}

// in returns a path of the mount as a path in its file system.
func (m mount) in(p string) string { return paths.Move(p, m.at, m.root) }

// mountsIn returns the mounts that show in directories without symlinks: a part of each directory's own
// mount, which has no id, and those beneath.
func mountsIn(table []mount, dirs ...string) (shown []mount) {
	for _, dir := range dirs {
		on := mountOf(table, dir)
		shown = append(shown, mount{dev: on.dev, root: on.in(dir), at: dir})
		for _, m := range table {
			if m.at != dir && paths.Inside(dir, m.at) && mountOf(table, m.at) == m { // no other mount covers it
				shown = append(shown, m)
			}
		}
	}
	return shown
}

// otherPaths returns where mounts in shown, found by mountsIn, show a path without symlinks at another
// path. "" is none.
func otherPaths(table, shown []mount, p string) (list []string) {
	on := mountOf(table, p)
	in := on.in(p)
	for _, m := range shown {
		if p != "" && on.at != "" && m.dev == on.dev && paths.Inside(m.root, in) && paths.Move(in, m.root, m.at) != p {
			list = append(list, paths.Move(in, m.root, m.at))
		}
	}
	return list
}

// MountBeneath returns a mount beneath one of some directories, "" if there is none.
func MountBeneath(dirs []string) string {
	list, _ := mounts()
	for _, m := range mountsIn(list, dirs...) {
		if m.id != "" {
			return m.at
		}
	}
	return ""
}
