package landlock

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// A want is the access of a command to a path of the host, and beneath it up to deeper wants.
type want struct {
	path     string
	dest     string // where a later step of the plan can cover it; "" if none can
	access   access
	dir      bool // for a hidden path: a directory, whose names are also hidden
	optional bool // it may be missing
	why      string
}

// devices are those of /dev that every command may use.
var devices = slices.Concat([]want{{path: "/dev/tty", access: terminal}},
	accessTo(device, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"))

func accessTo(a access, list ...string) (wants []want) {
	for _, p := range list {
		wants = append(wants, want{path: p, access: a, optional: true, why: "filesystem"})
	}
	return wants
}

// wants are the steps of a mount plan, without mounts: memory does not exist here. It omits a
// hidden socket: Landlock prevents no connection.
func wants(ops []holder.Op, socket func(path string) bool) []want {
	list := slices.Clone(devices)
	for _, o := range ops {
		w := want{path: o.Source, dest: o.Dest, why: o.Why, optional: !o.FromSpec}
		switch o.Kind {
		case holder.ReadOnlyBind, holder.File:
			w.access = read
		case holder.Bind:
			w.access = write
		case holder.Processes:
			w.path, w.access = o.Dest, read
		case holder.Memory, holder.Home, holder.Directory, holder.Devices, holder.HideDirectory, holder.MountPoints:
			w.path, w.dir = o.Dest, true
		case holder.HideFile:
			w.path = o.Dest
		default: // a symlink of the view is the host's; seals and pins do not exist
			continue
		}
		if paths.Inside("/proc", path.Dir(w.path)) || o.Kind == holder.HideFile && socket(w.path) {
			continue // /proc is covered only for commands with capabilities
		}
		if o.FromSpec { // a later step covers an earlier one, except those of the Spec
			list = slices.DeleteFunc(list, func(w want) bool { return w.dest != "" && paths.Inside(o.Dest, w.dest) })
			w.dest = ""
		}
		list = append(list, w)
	}
	slices.SortStableFunc(list, func(a, b want) int {
		return cmp.Or(paths.Compare(a.path, b.path), cmp.Compare(a.access, b.access))
	})
	return list
}

// withoutNested omits read-only entries that may be missing in a writable directory, which grants
// them: before each command all of a table is read.
func withoutNested(table []shared.Entry) []shared.Entry {
	covers := shared.Covers(table)
	return slices.DeleteFunc(slices.Clone(table), func(e shared.Entry) bool {
		in, _ := covers(path.Dir(e.Path))
		return e.Access == shared.ReadOnly && e.Missing == shared.MissingIgnore && in != nil && in.Access == shared.ReadWrite
	})
}

// A domain is what the kernel enforces of a plan.
type domain struct {
	rules []rule
	// closed are directories in which nothing can be created, renamed or removed, with the path
	// that is hidden there.
	closed map[string]want
	listed bool // it depends on the current names
}

type rule struct {
	confine.Rule
	why string
}

// maxRules is how many rules the kernel gets for one command: they take it 20 milliseconds.
const maxRules = 4000

// domainOf turns wants into rules. Landlock grants, and cannot take back beneath a path: it grants
// a directory with a hidden path name by name, and not the directory itself. list returns the names
// there.
func domainOf(wants []want, abi int, list func(dir string) ([]fs.DirEntry, error)) (*domain, error) {
	m := &maker{domain: domain{closed: map[string]want{}}, mask: handled(abi), list: list}
	at := map[string]want{}
	for _, w := range wants {
		at[w.path] = w // at one path the greater access, which comes later, counts
	}
	for _, w := range wants {
		if w != at[w.path] || w.access == hidden {
			continue
		}
		if over, ok := above(at, w.path); ok && over.access >= w.access && w.access <= write {
			continue // the writable one grants it: a Landlock rule protects nothing beneath itself
		}
		if err := m.grant(w, holes(wants, w.path)); err != nil {
			return nil, err
		}
	}
	return &m.domain, nil
}

// above is the want of the directory above a path.
func above(at map[string]want, p string) (want, bool) {
	for dir := range paths.Up(path.Dir(p)) {
		if w, ok := at[dir]; ok && p != "/" {
			return w, true
		}
	}
	return want{}, false
}

// holes are the hidden paths beneath a directory.
func holes(wants []want, dir string) (list []want) {
	for _, w := range wants {
		if w.access == hidden && w.path != dir && paths.Inside(dir, w.path) {
			list = append(list, w)
		}
	}
	return list
}

type maker struct {
	domain
	mask rights
	list func(string) ([]fs.DirEntry, error)
}

func (m *maker) add(w want, r rights) {
	m.rules = append(m.rules, rule{confine.Rule{Path: w.path, Access: uint64(r & m.mask), Optional: w.optional}, w.why})
}

// grant adds rules for w, without the holes in it.
func (m *maker) grant(w want, holes []want) error {
	if len(holes) == 0 {
		m.add(w, w.access.rights())
		return nil
	}
	if w.access == write {
		m.closed[w.path] = holes[0]
	}
	if !slices.ContainsFunc(holes, func(h want) bool { return h.dir }) {
		m.add(w, readDir) // the names of hidden files do not matter
	}
	m.listed = true
	entries, err := m.list(w.path)
	if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: holes[0].why, Message: err.Error()}
	}
	for _, e := range entries {
		child := w
		child.path, child.optional = path.Join(w.path, e.Name()), true
		var within []want
		covered := false
		for _, h := range holes {
			covered = covered || h.path == child.path
			if paths.Inside(child.path, h.path) {
				within = append(within, h)
			}
		}
		if covered || e.Type()&fs.ModeSymlink != 0 {
			continue // a link's target has its own rules
		}
		if err := m.grant(child, within); err != nil {
			return err
		}
		if len(m.rules) > maxRules {
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: holes[0].why,
				Message: fmt.Sprintf("hiding %s needs more than %d rules of Landlock, one for each name beside it and above", hostpath.Quote(holes[0].path), maxRules),
				Hint:    "show a smaller directory, or use an engine with mounts"}
		}
	}
	return nil
}

// forInit is the init's form of the domain.
func (d *domain) forInit(abi int) *confine.Landlock {
	l := &confine.Landlock{Handled: uint64(handled(abi)), Scoped: scoped(abi), Rules: make([]confine.Rule, len(d.rules))}
	for i, r := range d.rules {
		l.Rules[i] = r.Rule
	}
	return l
}
