package mountplan

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

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
		case at.kind == absent, at.viewEntry:
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
	if _, ok := errors.AsType[*plantedLinkError](err); ok {
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
