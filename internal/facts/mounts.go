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

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// A mount shows a part of a file system.
type mount struct {
	dev  uint64 // of the file system, which may differ from that of its files
	root string // the part that it shows
	at   string
}

// mounts are those of this process, a later mount after the one it may lie on.
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
		list = append(list, mount{unix.Mkdev(uint32(high), uint32(low)), unescaped(fields[3]), unescaped(fields[4])})
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

// mountOf returns the mount of a path without symlinks.
func mountOf(list []mount, p string) (of mount) {
	for _, m := range list {
		if paths.Inside(m.at, p) && len(m.at) >= len(of.at) {
			of = m
		}
	}
	return of
}

// in is the path in the file system of a path on the mount.
func (m mount) in(p string) string { return filepath.Join(m.root, strings.TrimPrefix(p, m.at)) }

// shownIn returns the one of some directories in which a path, without symlinks, shows too, by another
// mount of the same file system; "" if there is none.
func shownIn(table []mount, dirs []string, p string) string {
	on := mountOf(table, p)
	at := on.in(p)
	for _, dir := range dirs {
		around := mountOf(table, dir)
		shown := []mount{{around.dev, around.in(dir), dir}}
		for _, m := range table {
			if m.at != dir && paths.Inside(dir, m.at) {
				shown = append(shown, m)
			}
		}
		if slices.ContainsFunc(shown, func(m mount) bool { return on.at != "" && m.dev == on.dev && paths.Inside(m.root, at) }) {
			return dir
		}
	}
	return ""
}

// mountsBeneath names the mounts beneath the workspace: an overlay shows what is under them.
func (m *Machine) mountsBeneath() (notes []string) {
	root := m.Workspace.Root()
	list, _ := mounts()
	for _, one := range list {
		if one.at != root && paths.Inside(root, one.at) {
			notes = append(notes, "review: the mount at "+hostpath.Quote(one.at)+" is not in the review: commands see the directory under it")
		}
	}
	return notes
}
