package mountplan

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// facts is what the planner must know of this machine.
type Facts struct {
	uid    uint32
	memory uint64 // bytes of RAM; 0 where unknown
	tree   tree

	roots  []Op // system directories of the minimal view
	etc    []Op // the entries of /etc of the minimal view
	links  []Op // symlinks in /run that programs are found through
	resolv []Op // what a private /run must hold for name resolution, in the host view
	covers []Op // what keeps a root caller from the kernel's controls in /proc

	run, varTmp bool // whether the host has these directories
}

// minimal gives the directories of programs and libraries of the minimal view, and its names in /etc.
var minimal = sync.OnceValues(func() (roots, etc []string) {
	for _, p := range shared.MinimalView() {
		if name, ok := strings.CutPrefix(p, "/etc/"); ok {
			etc = append(etc, name)
		} else {
			roots = append(roots, p)
		}
	}
	return roots, etc
})

// copyMax is the size up to which a file of /etc is copied in, not bound: a
// mount costs more than that much memory to copy.
const copyMax = 64 << 10

// gather looks at the host's tree.
func gather(t tree, uid uint32, memory uint64) *Facts {
	f := &Facts{uid: uid, memory: memory, tree: t}
	t = remember(t)
	roots, _ := minimal()
	for _, p := range roots {
		e, err := t.lstat(p)
		if err != nil {
			continue
		}
		switch e.kind {
		case directory:
			f.roots = append(f.roots, Op{Kind: ROBind, Source: p, Dest: p, Why: "filesystem"})
		case symlink:
			real, target := resolve(t, p)
			if target.kind != directory {
				continue
			}
			if systemPath(real) {
				// Relative, because bubblewrap makes mount points before
				// the new root is the root.
				f.roots = append(f.roots, Op{Kind: Symlink, Source: relative(p, real), Dest: p, Why: "filesystem"})
			} else {
				f.roots = append(f.roots, Op{Kind: ROBind, Source: real, Dest: p, Why: "filesystem"})
			}
		}
	}
	// What is bound precedes the links to it.
	slices.SortStableFunc(f.roots, func(a, b Op) int { return int(a.Kind) - int(b.Kind) })

	for _, name := range etcNames(t) {
		p := "/etc/" + name
		if o, ok := etcEntry(t, p); ok {
			f.etc = append(f.etc, o)
		}
	}
	for _, c := range kernelControls {
		e, err := t.lstat(c.path)
		switch {
		case err != nil || e.kind != c.kind:
		case c.kind == directory:
			f.covers = append(f.covers, Op{Kind: ROBind, Source: c.path, Dest: c.path, Why: "kernel controls"})
		default:
			f.covers = append(f.covers, Op{Kind: MaskFile, Dest: c.path, Why: "kernel controls"})
		}
	}
	isDir := func(p string) bool { e, err := t.lstat(p); return err == nil && e.kind == directory }
	f.run, f.varTmp = isDir("/run"), isDir("/var/tmp")
	if real, e := resolve(t, "/run/current-system"); e.kind == directory && systemPath(real) {
		f.links = append(f.links, Op{Kind: Symlink, Source: real, Dest: "/run/current-system", Why: "filesystem"})
	}
	if real, e := resolve(t, "/etc/resolv.conf"); e.kind == file && paths.Inside("/run", real) {
		f.resolv = append(f.resolv, Op{Kind: File, Source: real, Dest: real, Perms: 0o444, Why: "filesystem"})
	}
	return f
}

// kernelControls are what in /proc a root caller could write to, or read what
// is no command's business, though it has no capabilities: it owns them.
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

// etcEntry says how one entry of /etc gets into the minimal view. What is not
// readable by everybody stays out: a caller who is root could read it.
func etcEntry(t tree, p string) (Op, bool) {
	first, err := t.lstat(p)
	if err != nil || first.kind == absent {
		return Op{}, false
	}
	o := Op{Dest: p, Why: "filesystem"}
	if first.kind == symlink {
		text := first.target
		if !strings.HasPrefix(text, "/") {
			text = path.Join(path.Dir(p), text)
		}
		if paths.Inside("/proc", path.Clean(text)) {
			// Not resolved: it would name this very process.
			o.Kind, o.Source = Symlink, path.Clean(text)
			return o, true
		}
	}
	real, e := resolve(t, p)
	if e.kind != absent && first.kind == symlink && systemPath(real) {
		o.Kind, o.Source = Symlink, real
		return o, true
	}
	switch {
	case e.kind == directory && e.perm&0o005 == 0o005:
		o.Kind, o.Source = ROBind, real
	case e.kind == file && e.perm&0o004 != 0 && e.size <= copyMax:
		o.Kind, o.Source, o.Perms = File, real, 0o444
	case e.kind == file && e.perm&0o004 != 0:
		o.Kind, o.Source = ROBind, real
	default:
		return Op{}, false
	}
	return o, true
}

// systemPath reports whether p lies in a directory that the minimal view binds.
func systemPath(p string) bool {
	roots, _ := minimal()
	return slices.ContainsFunc(roots, func(root string) bool { return paths.Inside(root, p) })
}

// relative spells the absolute path target as seen from the symlink at link.
func relative(link, target string) string {
	up := strings.Repeat("../", strings.Count(strings.TrimSuffix(path.Dir(link), "/"), "/"))
	return up + strings.TrimPrefix(target, "/")
}

// etcNames gives the entries of /etc to look at, sorted, without saying that they exist.
func etcNames(t tree) []string {
	_, etc := minimal()
	var names []string
	for _, pattern := range etc {
		if !strings.Contains(pattern, "*") {
			names = append(names, pattern)
			continue
		}
		for _, name := range t.names("/etc") {
			if ok, _ := path.Match(pattern, name); ok {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
