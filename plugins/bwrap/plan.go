package bwrap

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/holder"
)

// plan gives the steps that make the view of one command, in order. It looks
// at the host through f alone and changes nothing.
func plan(f *facts, h *held, spec *shared.Spec, cmd *shared.Command) ([]op, error) {
	p := planner{facts: f, held: h, spec: spec, tempSize: tempSize(f, spec), uid: f.uid}
	if spec.User != nil {
		p.uid = spec.User.UID
	}
	mounts, err := p.mounts()
	if err != nil {
		return nil, err
	}
	ops := p.base(mounts)
	ops = append(ops, mounts...)
	masks, err := p.masks(ops, p.all(cmd.Masks))
	if err != nil {
		return nil, err
	}
	ops = append(pins(ops, append(readOnlyIn(mounts), masks...)), masks...)
	return append(ops, p.seal(mounts)...), nil
}

type planner struct {
	facts    *facts
	held     *held
	spec     *shared.Spec
	uid      uint32
	tempSize uint64
}

// mounts turns the Spec's mounts, the home directory and the private temporary
// directories into steps, parents first, each at a place that was checked.
func (p *planner) mounts() ([]op, error) {
	ops := make([]op, 0, len(p.spec.Table)+4)
	for _, m := range p.spec.Table {
		o := op{Kind: opROBind, Source: m.Source, Dest: m.Path, Open: true, Why: m.Why}
		switch m.Access {
		case shared.ReadWrite:
			o.Kind = opBind
		case shared.Private:
			o.Kind, o.Perms, o.Size, o.Open = opTmpfs, 0o755, p.tempSize, false
		case shared.Overlay:
			reason := p.held.overlay(m.Source)
			if reason == "" {
				o.Kind, o.Open = opOverlay, false
			} else if !m.Degradable {
				return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: m.Why, Message: "no overlay of " + m.Source + ": " + reason}
			}
		}
		ops = append(ops, o)
	}
	taken := func(dest string) bool { return slices.ContainsFunc(ops, func(o op) bool { return o.Dest == dest }) }
	private := func(dest string, perms uint32, why string) {
		if !taken(dest) {
			ops = append(ops, op{Kind: opTmpfs, Dest: dest, Perms: perms, Size: p.tempSize, Why: why})
		}
	}
	private("/tmp", 0o1777, "filesystem")
	if p.ownVarTmp() {
		private("/var/tmp", 0o1777, "filesystem")
	}
	if p.spec.Home != "" {
		private(p.spec.Home, 0o700, "home")
		if last := &ops[len(ops)-1]; p.held.holder && last.Why == "home" {
			last.Kind = opHome
		}
	}
	return p.settle(ops)
}

// ownVarTmp reports whether /var/tmp has a mount of its own. The minimal view
// spares one and links it to /tmp, unless something stands in it: a workspace
// there would have another path inside than outside.
func (p *planner) ownVarTmp() bool {
	if p.spec.Filesystem == shared.FilesystemHost {
		return p.facts.varTmp
	}
	return within(p.spec.Home, "/var/tmp") ||
		slices.ContainsFunc(p.spec.Table, func(m shared.Entry) bool { return m.Path != "/var/tmp" && within(m.Path, "/var/tmp") })
}

// settle replaces each destination by the place that it leads to, so that no
// step goes through a symlink, and orders the steps.
func (p *planner) settle(ops []op) ([]op, error) {
	for _, o := range ops {
		if err := refuseReserved(o); err != nil {
			return nil, err
		}
	}
	// Where one destination leads can depend on another one, beneath which it
	// lies once it has been replaced: repeat until nothing moves.
	for range maxLinks {
		slices.SortStableFunc(ops, func(a, b op) int { return byPath(a.Dest, b.Dest) })
		moved := false
		v := p.view()
		for i := range ops {
			o := &ops[i]
			at, err := v.locate(o.Dest, false)
			if err != nil {
				return nil, mountError(*o, err)
			}
			if at.path != o.Dest {
				o.Dest, moved = at.path, true
				if err := refuseReserved(*o); err != nil {
					return nil, err
				}
			}
			v.add(*o)
		}
		if !moved {
			ops, err := unique(ops)
			if err != nil {
				return nil, err
			}
			return ops, p.check(ops)
		}
	}
	return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "bind_paths", Message: "the destinations lead to one another through symlinks"}
}

// unique drops a mount that another spelling of its destination made already.
func unique(ops []op) ([]op, error) {
	kept := ops[:0]
	for _, o := range ops {
		if n := len(kept); n > 0 && kept[n-1].Dest == o.Dest {
			last := &kept[n-1]
			switch {
			case last.Kind == o.Kind && last.Source == o.Source:
			case last.Why == "filesystem" && last.Kind == opTmpfs:
				*last = o // a mount takes the place of the view's own
			case o.Why == "filesystem" && o.Kind == opTmpfs:
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
func (p *planner) check(ops []op) error {
	v := p.view()
	for _, o := range ops {
		want := directory
		if o.Kind != opTmpfs && o.Kind != opHome {
			e, err := p.facts.tree.lstat(o.Source)
			if err != nil {
				return mountError(o, err)
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
			return mountError(o, err)
		}
		switch {
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
func refuseReserved(o op) error {
	for _, dir := range [...]string{"/proc", "/dev", "/sys"} {
		if within(o.Dest, dir) {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why,
				Message: fmt.Sprintf("destination %q lies in %s, which the engine provides", o.Dest, dir)}
		}
	}
	if o.Dest == "/" {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: `destination "/" would replace the whole view`,
			Hint: `use filesystem = "host" to see the host's tree`}
	}
	return nil
}

func mountError(o op, err error) error {
	e := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: o.Why, Message: fmt.Sprintf("destination %q: %v", o.Dest, err)}
	if _, ok := errors.AsType[*planted](err); ok {
		e.Message = fmt.Sprintf("destination %q %v, which a command can change", o.Dest, err)
		e.Hint = "name the path that it leads to"
	}
	return e
}

// view is the base view, to which steps can be added.
func (p *planner) view() *view {
	v := &view{tree: p.facts.tree}
	for _, m := range p.spec.Table {
		if m.Access == shared.ReadWrite {
			v.writable = append(v.writable, m.Source)
		}
	}
	for _, o := range p.base(nil) {
		v.add(o)
	}
	return v
}

// base gives the steps for what lies beneath the mounts, without those that a
// mount would hide.
func (p *planner) base(mounts []op) []op {
	var ops []op
	hidden := func(dest string) bool {
		return slices.ContainsFunc(mounts, func(m op) bool { return within(dest, m.Dest) })
	}
	add := func(o op) {
		if o.Why == "" {
			o.Why = "filesystem"
		}
		if !hidden(o.Dest) {
			ops = append(ops, o)
		}
	}
	if p.spec.Filesystem == shared.FilesystemHost {
		add(op{Kind: opROBind, Source: "/", Dest: "/"})
	} else {
		for _, o := range p.facts.roots {
			add(o)
		}
		for _, o := range p.facts.etc {
			add(o)
		}
		if !p.ownVarTmp() {
			add(op{Kind: opSymlink, Source: "../tmp", Dest: "/var/tmp"})
		}
	}
	add(op{Kind: opProc, Dest: "/proc"})
	if p.uid == 0 {
		for _, o := range p.facts.covers {
			add(o)
		}
	}
	add(op{Kind: opDev, Dest: "/dev"})
	add(op{Kind: opTmpfs, Dest: "/dev/shm", Perms: 0o1777, Size: p.tempSize})
	add(op{Kind: opRemountRO, Dest: "/dev", Why: "no uncapped memory"})
	if p.spec.Filesystem == shared.FilesystemHost {
		if p.facts.run {
			add(op{Kind: opTmpfs, Dest: "/run", Perms: 0o755, Size: p.tempSize})
			for _, o := range p.facts.resolv {
				add(o)
			}
		}
	} else {
		add(op{Kind: opDir, Dest: "/run", Perms: 0o755})
	}
	for _, o := range p.facts.links {
		add(o)
	}
	return ops
}

// seal makes read-only what had to be writable while the mount points in it
// were made: it is memory without a cap.
func (p *planner) seal(mounts []op) []op {
	const why = "no uncapped memory"
	if p.spec.Filesystem != shared.FilesystemHost {
		return []op{{Kind: opRemountRO, Dest: "/", Why: why}}
	}
	if !p.facts.run ||
		slices.ContainsFunc(mounts, func(m op) bool { return m.Dest == "/run" }) {
		return nil
	}
	return []op{{Kind: opRemountRO, Dest: "/run", Why: why}}
}

// all are the command's masks and the engine's own: a view that shows the
// session's directory must not show its holder's, with a socket in it.
func (p *planner) all(masks []shared.Mask) []shared.Mask {
	if p.spec.Session.Dir == "" {
		return masks
	}
	place := path.Join(p.spec.Session.Dir, holder.Place)
	masks = slices.Clip(masks)
	if p.spec.Filesystem == shared.FilesystemHost {
		masks = append(masks, shared.Mask{Path: place, Dir: true, Origin: "session"})
	}
	for _, m := range p.spec.Table {
		if m.Access != shared.Private && within(place, m.Source) {
			at := path.Join(m.Path, strings.TrimPrefix(place, m.Source))
			masks = append(masks, shared.Mask{Path: at, Dir: true, Origin: "session"})
		}
	}
	return masks
}

// masks gives the steps that hide paths: sorted, none twice, none beneath
// another, none where there is nothing to hide.
func (p *planner) masks(ops []op, masks []shared.Mask) ([]op, error) {
	if len(masks) == 0 {
		return nil, nil
	}
	v := &view{tree: remember(p.facts.tree)} // many have their parents in common
	for _, o := range ops {
		v.add(o)
	}
	v.covers, v.ways = map[string]layer{}, map[string]bool{}
	dirs := map[string]place{}
	var hide []op
	for _, m := range masks {
		at, err := v.locateIn(dirs, m.Path)
		if err != nil {
			return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Origin, Message: fmt.Sprintf("cannot hide %q: %v", m.Path, err)}
		}
		switch at.kind {
		case absent, symlink:
			// Not there. To mount on it would leave a stub on the host.
			continue
		case directory:
			hide = append(hide, op{Kind: opMaskDir, Dest: at.path, Why: m.Origin})
		default:
			hide = append(hide, op{Kind: opMaskFile, Dest: at.path, Why: m.Origin})
		}
		for _, dir := range [...]string{"/proc", "/dev"} {
			if within(at.path, dir) || at.path == "/" {
				return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Origin, Message: fmt.Sprintf("cannot hide %q, which the engine needs", path.Clean(m.Path))}
			}
		}
	}
	slices.SortStableFunc(hide, func(a, b op) int { return byPath(a.Dest, b.Dest) })
	kept := hide[:0]
	for _, o := range hide {
		if n := len(kept); n > 0 && within(o.Dest, kept[n-1].Dest) {
			continue
		}
		kept = append(kept, o)
	}
	return kept, nil
}
