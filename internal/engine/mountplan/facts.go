package mountplan

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/curated"
	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// Facts is what the planner must know about this machine.
type Facts struct {
	uid    uint32
	memory uint64 // bytes of RAM; 0 if unknown
	tree   tree

	roots []holder.Op // system directories of the minimal view
	// settings are the entries of /etc and /var in the minimal view.
	settings []holder.Op
	links    []holder.Op // symlinks in /run that lead to programs
	sys      []holder.Op // the part of /sys in the minimal view
	resolv   []holder.Op // what a private /run needs for name resolution, in the host view
	covers   []holder.Op // hides the kernel's controls in /proc from a root caller

	run, varTmp bool // whether the host has these directories
}

// copyMax is the largest size, in bytes, of a file that is copied, not bound: a mount costs more
// than a copy of this size.
const copyMax = 64 << 10

// gather looks at the host's tree.
func gather(t tree, uid uint32, memory uint64) *Facts {
	f := &Facts{uid: uid, memory: memory, tree: t}
	t = remember(t)
	for _, p := range curated.Roots {
		real, e := resolve(t, p)
		if e.kind != directory {
			continue
		}
		o := holder.Op{Kind: holder.ReadOnlyBind, Source: real, Dest: p}
		if real != p && systemPath(real) {
			// Relative, because bubblewrap makes mount points before the new root is the root.
			o.Kind = holder.Symlink
			o.Source, _ = filepath.Rel(path.Dir(p), real)
		}
		f.roots = append(f.roots, o)
	}
	// Binds precede the links to them.
	slices.SortStableFunc(f.roots, func(a, b holder.Op) int { return int(a.Kind) - int(b.Kind) })

	f.settings = settings(t)
	isDir := func(p string) bool { e, err := t.lstat(p); return err == nil && e.kind == directory }
	for _, p := range sysShown {
		if isDir(p) {
			f.sys = append(f.sys, holder.Op{Kind: holder.ReadOnlyBind, Source: p, Dest: p})
		}
	}
	if f.sys != nil {
		f.sys = slices.Insert(f.sys, 0, holder.Op{Kind: holder.Directory, Dest: "/sys", Perms: 0o755})
		// Then lsblk and similar programs find no devices; without the directory they fail.
		f.sys = append(f.sys, holder.Op{Kind: holder.Directory, Dest: "/sys/dev/block", Perms: 0o755},
			// For the command's own control group, if one enforces its limits.
			holder.Op{Kind: holder.Directory, Dest: "/sys/fs/cgroup", Perms: 0o755})
	}
	for _, c := range kernelControls {
		e, err := t.lstat(c.path)
		switch {
		case err != nil || e.kind != c.kind:
		case c.kind == directory:
			f.covers = append(f.covers, holder.Op{Kind: holder.ReadOnlyBind, Source: c.path, Dest: c.path, Why: "kernel controls"})
		default:
			f.covers = append(f.covers, holder.Op{Kind: holder.HideFile, Dest: c.path, Why: "kernel controls"})
		}
	}
	f.run, f.varTmp = isDir("/run"), isDir("/var/tmp")
	if real, e := resolve(t, "/run/current-system"); e.kind == directory && systemPath(real) {
		f.links = append(f.links, holder.Op{Kind: holder.Symlink, Source: real, Dest: "/run/current-system"})
	}
	if real, e := resolve(t, "/etc/resolv.conf"); e.kind == file && paths.Inside("/run", real) {
		f.resolv = append(f.resolv, holder.Op{Kind: holder.File, Source: real, Dest: real, Perms: 0o444})
	}
	return f
}

// sysShown is the part of /sys in the minimal view: with it lscpu, numactl, language runtimes and
// allocators know the number of processors, and how memory is divided. It has nothing about
// devices, firmware, modules or control groups; the sandbox itself shows a command's own group.
var sysShown = [...]string{"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage"}

// kernelControls are files of /proc that a root caller could write to, or should not read, although
// it has no capabilities: root owns them.
var kernelControls = [...]struct {
	path string
	kind kind
}{
	{"/proc/sys", directory},
	{"/proc/fs", directory},
	{"/proc/irq", directory},
	{"/proc/bus", directory},
	{"/proc/acpi", directory},
	{"/proc/scsi", directory},
	{"/proc/sysrq-trigger", file},
	{"/proc/kcore", file},
	{"/proc/kmsg", file},
	{"/proc/keys", file},
	{"/proc/timer_list", file},
	{"/proc/mtrr", file},
}

// settingsEntry decides how one path of /etc or /var gets into the minimal view. A file that not
// everybody can read stays out: a root caller could read it.
func settingsEntry(t tree, p string) (holder.Op, bool) {
	first, err := t.lstat(p)
	if err != nil || first.kind == absent {
		return holder.Op{}, false
	}
	o := holder.Op{Dest: p}
	if first.kind == symlink {
		text := first.target
		if !strings.HasPrefix(text, "/") {
			text = path.Join(path.Dir(p), text)
		}
		if paths.Inside("/proc", path.Clean(text)) {
			// Not resolved: it would name this very process.
			o.Kind, o.Source = holder.Symlink, path.Clean(text)
			return o, true
		}
	}
	real, e := resolve(t, p)
	if e.kind != absent && first.kind == symlink && systemPath(real) {
		o.Kind, o.Source = holder.Symlink, real
		return o, true
	}
	switch {
	case e.kind == directory && e.perm&0o005 == 0o005:
		o.Kind, o.Source = holder.ReadOnlyBind, real
	case e.kind == file && e.perm&0o004 != 0 && e.size <= copyMax:
		o.Kind, o.Source, o.Perms = holder.File, real, 0o444
	case e.kind == file && e.perm&0o004 != 0:
		o.Kind, o.Source = holder.ReadOnlyBind, real
	default:
		return holder.Op{}, false
	}
	return o, true
}

// systemPath reports whether p is in a directory that the minimal view binds.
func systemPath(p string) bool {
	return slices.ContainsFunc(curated.Roots[:], func(root string) bool { return paths.Inside(root, p) })
}

// settings are the steps for /etc and /var in the minimal view, sorted.
func settings(t tree) (ops []holder.Op) {
	there := map[string]bool{} // names in /etc, so that it looks only at these
	for _, name := range t.names("/etc") {
		there[name] = true
	}
	for _, pattern := range curated.Patterns() {
		first, _, _ := strings.Cut(strings.TrimPrefix(pattern, "/etc/"), "/")
		if first != "" && len(there) > 0 && !there[first] && !strings.Contains(first, "*") {
			continue
		}
		for _, p := range expand(t, pattern) {
			o, ok := settingsEntry(t, p)
			if !ok || curated.Selective(p) && t.names(p) == nil { // nobody knows what to hide
				continue
			}
			ops = append(ops, o)
			if o.Kind == holder.ReadOnlyBind && curated.Selective(p) {
				ops = append(ops, unselected(t, p)...)
			}
		}
	}
	slices.SortStableFunc(ops, func(a, b holder.Op) int { return strings.Compare(a.Dest, b.Dest) })
	return ops
}

// expand returns the paths that a pattern can mean; they may not exist.
func expand(t tree, pattern string) []string {
	before, _, wild := strings.Cut(pattern, "*")
	if !wild {
		return []string{pattern}
	}
	dir := path.Dir(before + "x")
	name, rest, _ := strings.Cut(pattern[len(dir)+1:], "/")
	var list []string
	for _, have := range t.names(dir) {
		if ok, _ := path.Match(name, have); ok {
			list = append(list, expand(t, path.Join(dir, have, rest))...)
		}
	}
	return list
}

// unselected hides the part of a directory that is not shown. A symlink's target shows by its own
// entry, or not at all.
func unselected(t tree, dir string) (ops []holder.Op) {
	for _, name := range t.names(dir) {
		if curated.Selected(name) {
			continue
		}
		o := holder.Op{Kind: holder.HideFile, Dest: path.Join(dir, name)}
		switch e, err := t.lstat(o.Dest); {
		case err != nil || e.kind == absent || e.kind == symlink:
			continue
		case e.kind == directory:
			o.Kind = holder.HideDirectory
		}
		ops = append(ops, o)
	}
	return ops
}
