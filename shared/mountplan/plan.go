package mountplan

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/holder"
)

// Plan gives the steps that make the view of a sandbox's commands, in order. It
// looks at the host through f alone, often at one path, and changes nothing.
func Plan(f *Facts, h *Held, spec *shared.Spec) ([]Op, error) {
	p := planner{facts: f, held: h, spec: spec, tempSize: tempSize(f, spec), uid: f.uid}
	if spec.User != nil {
		p.uid = spec.User.UID
	}
	table, err := p.table()
	if err != nil {
		return nil, err
	}
	for i := range table {
		table[i].Asked = true
	}
	ops := slices.Concat(p.base(table), table, p.seal(table))
	return ops, bounded(ops)
}

// What a command can make must not cost more than seconds to hide: so many steps
// take about one, and a message to a holder has room for so many bytes of paths.
const (
	maxSteps     = 8000
	maxStepBytes = 4 << 20
)

// bounded refuses a plan of too many steps, and names the directory that most of
// them lie in: a command can make directories faster than anybody finds them.
func bounded(ops []Op) error {
	size := 0
	for _, o := range ops {
		size += len(o.Source) + len(o.Dest)
	}
	if len(ops) <= maxSteps && size <= maxStepBytes {
		return nil
	}
	dests := make([]string, len(ops))
	for i, o := range ops {
		dests[i] = o.Dest
	}
	dir, n := hostpath.MostIn(dests)
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "deny_paths",
		Message: fmt.Sprintf("hiding and protecting takes %d mounts with %d bytes of paths, more than %d or %d; %d of them lie in %s",
			len(ops), size, maxSteps, maxStepBytes, n, hostpath.Quote(dir)),
		Hint: "remove what is not needed there, or hide a directory as a whole by its name in deny_paths"}
}

type planner struct {
	facts    *Facts
	held     *Held
	spec     *shared.Spec
	uid      uint32
	tempSize uint64
}

// table turns the Spec's table, the home directory and the private temporary
// directories into steps, parents first, each at a place that was checked.
func (p *planner) table() ([]Op, error) {
	ops := make([]Op, 0, len(p.spec.Table)+5)
	taken := map[string]bool{}
	for _, e := range append(slices.Clip(p.spec.Table), p.sockets()...) {
		o := Op{Kind: ROBind, Source: e.Source, Dest: e.Path, Open: true, Why: e.Why}
		switch e.Access {
		case shared.Hidden:
			o.Kind, o.Open, o.Ignore = Hide, false, e.Missing == shared.MissingIgnore
		case shared.ReadWrite:
			o.Kind = Bind
		case shared.Private:
			o.Kind, o.Perms, o.Size, o.Open = Tmpfs, 0o755, p.tempSize, false
		case shared.Overlay:
			reason := p.held.Overlay(e.Source)
			if reason == "" {
				o.Kind, o.Open = Overlay, false
			} else if !e.Degradable {
				return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: e.Why, Message: "no overlay of " + e.Source + ": " + reason}
			}
		}
		if e.Access.Shows() && e.Missing == shared.MissingIgnore {
			if at, err := p.facts.tree.lstat(e.Source); err == nil && at.kind == absent {
				continue
			}
		}
		taken[e.Path] = true
		ops = append(ops, o)
	}
	private := func(dest string, perms uint32, why string) {
		if !taken[dest] {
			taken[dest] = true
			ops = append(ops, Op{Kind: p.temporary(), Dest: dest, Perms: perms, Size: p.tempSize, Why: why})
		}
	}
	private("/tmp", 0o1777, "filesystem")
	if p.ownVarTmp() {
		private("/var/tmp", 0o1777, "filesystem")
	}
	if p.spec.Home != "" {
		private(p.spec.Home, 0o700, "home")
		if last := &ops[len(ops)-1]; p.held.Holder && last.Why == "home" {
			last.Kind = Home
		}
	}
	if p.held.Nameserver != "" {
		// The host's own would name servers that are not reached, and hosts past the rules.
		for dest, text := range map[string]string{
			"/etc/resolv.conf": "nameserver " + p.held.Nameserver + "\n",
			"/etc/hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
		} {
			ops = append(ops, Op{Kind: Text, Source: text, Dest: dest, Perms: 0o444, Why: "network"})
		}
	}
	return p.settle(ops)
}

// temporary is the kind of memory that a command has to write to: commands which share processes
// meet there, by sockets and pid files.
func (p *planner) temporary() Kind {
	if p.spec.Session.Processes {
		return Home
	}
	return Tmpfs
}

// ownVarTmp reports whether /var/tmp has a mount of its own. The minimal view
// spares one and links it to /tmp, unless something stands in it: a workspace
// there would have another path inside than outside.
func (p *planner) ownVarTmp() bool {
	if p.spec.Filesystem == shared.FilesystemHost {
		return p.facts.varTmp
	}
	return paths.Inside("/var/tmp", p.spec.Home) ||
		slices.ContainsFunc(p.spec.Table, func(e shared.Entry) bool {
			return e.Access != shared.Hidden && e.Path != "/var/tmp" && paths.Inside("/var/tmp", e.Path)
		})
}

// settle replaces each destination by the place that it leads to, so that no
// step goes through a symlink, and orders the steps.
func (p *planner) settle(ops []Op) ([]Op, error) {
	for _, o := range ops {
		if err := refuseReserved(o); err != nil {
			return nil, err
		}
	}
	// Where one destination leads can depend on another one, beneath which it
	// lies once it has been replaced: repeat until nothing moves.
	for range paths.MaxLinks {
		slices.SortStableFunc(ops, parentsFirst)
		moved, v, err := p.locateAll(ops)
		if err != nil {
			return nil, err
		}
		if moved {
			continue
		}
		if ops, err = unique(ops); err != nil {
			return nil, err
		}
		if ops, err = v.hide(ops); err != nil {
			return nil, err
		}
		if err := p.check(ops); err != nil {
			return nil, err
		}
		return pinned(ops), nil
	}
	return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "bind_paths", Message: "the destinations lead to one another through symlinks"}
}

// parentsFirst orders steps; what hides comes after what shows at the same place.
func parentsFirst(a, b Op) int {
	if order := paths.Compare(a.Dest, b.Dest); order != 0 || a.hides() == b.hides() {
		return order
	} else if a.hides() {
		return 1
	}
	return -1
}

// locateAll replaces each destination by the place that it leads to in what the steps before
// it show, and gives that view. moved says that one was another.
func (p *planner) locateAll(ops []Op) (moved bool, v *view, err error) {
	// What a link in a hidden directory leads to is hidden, too, where that is
	// elsewhere: open has nothing of what hides.
	v, open := p.view(), p.view()
	for i := range ops {
		o := &ops[i]
		at, err := v.locate(o.Dest, o.hides())
		if err == nil && o.hides() && at.kind == absent {
			at, err = open.locate(o.Dest, true)
		}
		if err != nil {
			return false, nil, placeError(*o, err)
		}
		if o.hides() {
			if at.kind == absent && at.host == "" && holdsMore(ops[i+1:], o.Dest) {
				at.kind = directory // it is made for what lies in it
			}
			o.Kind = maskOf(at.kind)
		}
		moved = moved || at.path != o.Dest
		o.Dest = at.path
		if err := refuseReserved(*o); err != nil {
			return false, nil, err
		}
		v.add(*o)
		if !o.hides() {
			open.add(*o)
		}
	}
	return moved, v, nil
}

// maskOf is what hides something of that kind.
func maskOf(k kind) Kind {
	switch k {
	case directory:
		return MaskDir
	case file:
		return MaskFile
	}
	return Hide
}

// holdsMore reports whether something shows in dir, of the steps that come after
// its own.
func holdsMore(ops []Op, dir string) bool {
	for _, o := range ops {
		if !paths.Inside(dir, o.Dest) {
			return false
		}
		if !o.hides() {
			return true
		}
	}
	return false
}

// hide leaves out what is hidden already, and what is not there to be hidden: to
// mount on it would leave a stub on the host.
func (v *view) hide(ops []Op) ([]Op, error) {
	kept := ops[:0]
	for _, o := range ops {
		if o.hides() {
			if v.layers.cover(path.Dir(o.Dest)).of.hides {
				continue
			}
			if o.Kind == Hide && !o.Ignore {
				return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: fmt.Sprintf("%q, which is to be hidden, does not exist", o.Dest)}
			}
			if o.Kind == Hide {
				continue
			}
		}
		kept = append(kept, o)
	}
	return kept, nil
}

// shellSize is for the mount points in a hidden directory alone.
const shellSize = 64 << 10

// pinned adds what keeps the directories above a step in their places.
func pinned(ops []Op) []Op {
	table := make([]shared.Entry, len(ops))
	for i, o := range ops {
		table[i] = shared.Entry{Path: o.Dest, Source: o.Source, Access: shared.Private, Why: o.Why}
		switch o.Kind {
		case ROBind:
			table[i].Access = shared.ReadOnly
		case Bind:
			table[i].Access = shared.ReadWrite
		case Overlay:
			table[i].Access = shared.Overlay
		}
	}
	for _, pin := range shared.Pins(table) {
		ops = append(ops, Op{Kind: Pin, Source: pin.Source, Dest: pin.Path, Open: true, Why: pin.Why})
	}
	slices.SortFunc(ops, func(a, b Op) int { return paths.Compare(a.Dest, b.Dest) })
	// No mount point can be made in what hides a directory: where there are some, it
	// is memory that is made read-only last.
	for i, n := 0, len(ops); i+1 < n; i++ {
		if o := &ops[i]; o.Kind == MaskDir && paths.Inside(o.Dest, ops[i+1].Dest) {
			o.Kind, o.Perms, o.Size = Shell, 0o755, shellSize
			ops = append(ops, Op{Kind: RemountRO, Dest: o.Dest, Why: o.Why})
		}
	}
	return ops
}

// unique drops a mount that another spelling of its destination made already.
func unique(ops []Op) ([]Op, error) {
	kept := ops[:0]
	for _, o := range ops {
		if n := len(kept); n > 0 && kept[n-1].Dest == o.Dest {
			last := &kept[n-1]
			switch {
			case o.hides():
				o.Ignore = o.Ignore && (last.Ignore || !last.hides())
				*last = o // nothing of what it hides is shown
			case last.Kind == o.Kind && last.Source == o.Source:
			case last.Why == "filesystem" && (last.Kind == Tmpfs || last.Kind == Home):
				*last = o // a mount takes the place of the view's own
			case o.Why == "filesystem" && (o.Kind == Tmpfs || o.Kind == Home):
			default:
				return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why,
					Message: fmt.Sprintf("destination %q is that of %s too", o.Dest, last.Why)}
			}
			continue
		}
		kept = append(kept, o)
	}
	return kept, nil
}

// check refuses what bubblewrap would have to make in a directory of the
// host, where it would either fail or leave it behind.
func (p *planner) check(ops []Op) error {
	v := p.view()
	for _, o := range ops {
		if o.hides() {
			v.add(o)
			continue
		}
		want := directory
		if o.Kind == Text {
			want = file
		} else if o.Kind != Tmpfs && o.Kind != Home {
			e, err := p.facts.tree.lstat(o.Source)
			if err != nil {
				return placeError(o, err)
			}
			switch e.kind {
			case absent:
				return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: fmt.Sprintf("%q does not exist", o.Source),
					Hint: "create it, or mark the bind optional"}
			case symlink:
				return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: fmt.Sprintf("%q has become a symlink", o.Source)}
			}
			want = e.kind
		}
		at, err := v.locate(o.Dest, false)
		if err != nil {
			return placeError(o, err)
		}
		switch {
		case at.kind == absent && at.host != "" && o.Kind == Text:
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: o.Why,
				Message: fmt.Sprintf("there is no %s on this machine, in the place of which the sandbox's own could be shown", o.Dest),
				Hint:    `create an empty one, or use filesystem = "minimal"`}
		case at.kind == absent && at.host != "":
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why,
				Message: fmt.Sprintf("destination %q does not exist in what is bound there (%q on the host)", o.Dest, at.host),
				Hint:    "create it on the host, or choose a destination outside of the other binds"}
		case at.kind == absent, at.own:
		case at.kind != want:
			is, needs := "a directory", "a file"
			if want == directory {
				is, needs = needs, is
			}
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why,
				Message: fmt.Sprintf("destination %q is %s, where %s is needed to mount on", o.Dest, is, needs)}
		}
		v.add(o)
	}
	return nil
}

// refuseReserved refuses the destinations that are the engine's own business.
func refuseReserved(o Op) error {
	reserved, verb := []string{"/proc", "/dev", "/sys"}, "destination %q lies in %s, which the engine provides"
	if o.hides() {
		reserved, verb = []string{"/proc", "/dev"}, "cannot hide %q, which lies in %s: the engine needs it"
		if o.Kind == Hide {
			return nil // it is not there
		}
	}
	for _, dir := range reserved {
		if paths.Inside(dir, o.Dest) {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: fmt.Sprintf(verb, o.Dest, dir)}
		}
	}
	if o.Dest == "/" {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: `destination "/" would replace the whole view`,
			Hint: `use filesystem = "host" to see the host's tree`}
	}
	return nil
}

func placeError(o Op, err error) error {
	e := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: fmt.Sprintf("destination %q: %v", o.Dest, err)}
	if o.hides() {
		e.Message = fmt.Sprintf("cannot hide %q: %v", o.Dest, err)
	}
	if _, ok := errors.AsType[*planted](err); ok {
		e.Message = fmt.Sprintf("destination %q %v, which a command can change", o.Dest, err)
		e.Hint = "name the path that it leads to"
	}
	return e
}

// view is the base view, to which steps can be added.
func (p *planner) view() *view {
	v := newView(p.facts.tree)
	for _, m := range p.spec.Table {
		if m.Access == shared.ReadWrite {
			v.writable[m.Source] = true
		}
	}
	for _, o := range p.base(nil) {
		v.add(o)
	}
	return v
}

// base gives the steps for what lies beneath the table, without those that a
// step of it takes the place of.
func (p *planner) base(table []Op) []Op {
	taken := map[string]bool{}
	for _, o := range table {
		if !o.hides() {
			taken[o.Dest] = true
		}
	}
	ops := slices.Concat(p.system(), p.kernel(), p.facts.links)
	for i := range ops {
		if ops[i].Why == "" {
			ops[i].Why = "filesystem"
		}
	}
	return slices.DeleteFunc(ops, func(o Op) bool {
		for dir := range paths.Up(o.Dest) {
			if taken[dir] {
				return true
			}
		}
		return false
	})
}

// system are the directories of programs, libraries and settings.
func (p *planner) system() []Op {
	if p.spec.Filesystem == shared.FilesystemHost {
		return []Op{{Kind: ROBind, Source: "/", Dest: "/"}}
	}
	ops := slices.Concat(p.facts.roots, p.facts.etc)
	if !p.ownVarTmp() {
		ops = append(ops, Op{Kind: Symlink, Source: "../tmp", Dest: "/var/tmp"})
	}
	return ops
}

// kernel are /proc, /dev and /run.
func (p *planner) kernel() []Op {
	ops := []Op{{Kind: Proc, Dest: "/proc"}}
	if p.uid == 0 {
		ops = append(ops, p.facts.covers...)
	}
	ops = append(ops,
		Op{Kind: Dev, Dest: "/dev"},
		Op{Kind: p.temporary(), Dest: "/dev/shm", Perms: 0o1777, Size: p.tempSize},
		Op{Kind: RemountRO, Dest: "/dev", Why: "no uncapped memory"})
	switch {
	case p.spec.Filesystem != shared.FilesystemHost:
		ops = append(ops, Op{Kind: Dir, Dest: "/run", Perms: 0o755})
	case p.facts.run:
		ops = append(append(ops, Op{Kind: Tmpfs, Dest: "/run", Perms: 0o755, Size: p.tempSize}), p.facts.resolv...)
	}
	return ops
}

// seal makes read-only what had to be writable while the mount points in it
// were made: it is memory without a cap.
func (p *planner) seal(table []Op) []Op {
	const why = "no uncapped memory"
	if p.spec.Filesystem != shared.FilesystemHost {
		return []Op{{Kind: RemountRO, Dest: "/", Why: why}}
	}
	if !p.facts.run || slices.ContainsFunc(table, func(o Op) bool { return o.Dest == "/run" }) {
		return nil
	}
	return []Op{{Kind: RemountRO, Dest: "/run", Why: why}}
}

// sockets hides the engine's own: a view that shows the session's directory must
// not show its holder's, with a socket in it.
func (p *planner) sockets() (hidden []shared.Entry) {
	if p.spec.Session.Dir == "" {
		return nil
	}
	place := path.Join(p.spec.Session.Dir, holder.Place)
	hide := func(at string) {
		hidden = append(hidden, shared.Entry{Path: at, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "session"})
	}
	if p.spec.Filesystem == shared.FilesystemHost {
		hide(place)
	}
	for _, e := range p.spec.Table {
		if e.Access.Shows() && paths.Inside(e.Source, place) {
			hide(paths.Move(place, e.Source, e.Path))
		}
	}
	return hidden
}
