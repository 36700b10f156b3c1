package mountplan

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// settle replaces each destination by the path that it leads to, so that no step goes through a
// symlink, and orders the steps.
func (p *planner) settle(ops []holder.Op) ([]holder.Op, error) {
	for _, o := range ops {
		if err := refuseReserved(o); err != nil {
			return nil, err
		}
	}
	// A destination may lead beneath another one that was replaced: repeat until nothing changes.
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
		if ops, err = v.dropHidden(ops); err != nil {
			return nil, err
		}
		if err := p.check(ops); err != nil {
			return nil, err
		}
		return pinned(ops), nil
	}
	return nil, Invalid("bind_paths", "", "the destinations lead to one another through symlinks")
}

// parentsFirst orders steps; at the same place, what hides comes after what shows.
func parentsFirst(a, b holder.Op) int {
	if order := paths.Compare(a.Dest, b.Dest); order != 0 || a.Hides() == b.Hides() {
		return order
	} else if a.Hides() {
		return 1
	}
	return -1
}

// locateAll replaces each destination by its place in the view of the steps before it, and returns
// that view. moved says that one has changed.
func (p *planner) locateAll(ops []holder.Op) (moved bool, v *view, err error) {
	// The target of a link in a hidden directory is hidden too, if it is elsewhere: open has none
	// of the hiding steps.
	v, open := p.view(), p.view()
	for i := range ops {
		o := &ops[i]
		at, err := v.locate(o.Dest, o.Hides())
		if err == nil && o.Hides() && at.kind == absent {
			at, err = open.locate(o.Dest, true)
		}
		if err != nil {
			return false, nil, placeError(*o, err)
		}
		if o.Hides() {
			if at.kind == absent && at.host == "" && holdsMore(ops[i+1:], o.Dest) {
				at.kind = directory // it is made for its contents
			}
			o.Kind = maskOf(at.kind)
		}
		moved = moved || at.path != o.Dest
		o.Dest = at.path
		if err := refuseReserved(*o); err != nil {
			return false, nil, err
		}
		v.add(*o)
		if !o.Hides() {
			open.add(*o)
		}
	}
	return moved, v, nil
}

// maskOf is the step that hides that kind.
func maskOf(k kind) holder.Kind {
	switch k {
	case directory:
		return holder.HideDirectory
	case file:
		return holder.HideFile
	}
	return holder.Missing
}

// holdsMore reports whether later steps show something in dir.
func holdsMore(ops []holder.Op, dir string) bool {
	for _, o := range ops {
		if !paths.Inside(dir, o.Dest) {
			return false
		}
		if !o.Hides() {
			return true
		}
	}
	return false
}

// dropHidden drops steps for paths that are already hidden, and for missing ones: a mount would
// leave a stub on the host.
func (v *view) dropHidden(ops []holder.Op) ([]holder.Op, error) {
	kept := ops[:0]
	for _, o := range ops {
		if o.Hides() {
			if v.layers.cover(path.Dir(o.Dest)).of.hides {
				continue
			}
			if o.Kind == holder.Missing && !o.Ignore {
				return nil, Invalid(o.Why, "", "%q, which must be hidden, does not exist", o.Dest)
			}
			if o.Kind == holder.Missing {
				continue
			}
		}
		kept = append(kept, o)
	}
	return kept, nil
}

// unique drops a mount that another spelling of its destination has already made.
func unique(ops []holder.Op) ([]holder.Op, error) {
	kept := ops[:0]
	for _, o := range ops {
		if n := len(kept); n > 0 && kept[n-1].Dest == o.Dest {
			last := &kept[n-1]
			switch {
			case o.Hides():
				o.Ignore = o.Ignore && (last.Ignore || !last.Hides())
				*last = o // nothing that it hides shows
			case last.Kind == o.Kind && last.Source == o.Source:
			case last.Why == "filesystem" && (last.Kind == holder.Memory || last.Kind == holder.Home):
				*last = o // a mount replaces the view's own
			case o.Why == "filesystem" && (o.Kind == holder.Memory || o.Kind == holder.Home):
			default:
				return nil, Invalid(o.Why, "", "destination %q is that of %s too", o.Dest, last.Why)
			}
			continue
		}
		kept = append(kept, o)
	}
	return kept, nil
}

// check refuses mount points that bubblewrap would have to make in a directory of the host, where
// it would fail or leave them.
func (p *planner) check(ops []holder.Op) error {
	v := p.view()
	for _, o := range ops {
		if o.Hides() {
			v.add(o)
			continue
		}
		want := directory
		if o.Kind == holder.Text {
			want = file
		} else if o.Kind != holder.Memory && o.Kind != holder.Home {
			e, err := p.facts.tree.lstat(o.Source)
			if err != nil {
				return placeError(o, err)
			}
			switch e.kind {
			case absent:
				return Invalid(o.Why, "create it, or mark the bind optional", "%q does not exist", o.Source)
			case symlink:
				return Invalid(o.Why, "", "%q has become a symlink", o.Source)
			}
			want = e.kind
		}
		at, err := v.locate(o.Dest, false)
		if err != nil {
			return placeError(o, err)
		}
		switch {
		case at.kind == absent && at.host != "" && o.Kind == holder.Text:
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: o.Why,
				Message: fmt.Sprintf("this machine has no %s on which to mount the sandbox's own", o.Dest),
				Hint:    `create an empty one, or use filesystem = "minimal"`}
		case at.kind == absent && at.host != "":
			return Invalid(o.Why, "create it on the host, or choose a destination outside of the other binds",
				"destination %q does not exist in the bind around it (%q on the host)", o.Dest, at.host)
		case at.kind == absent, at.viewEntry:
		case at.kind != want:
			is, needs := "a directory", "a file"
			if want == directory {
				is, needs = needs, is
			}
			return Invalid(o.Why, "", "destination %q is %s, where %s is needed to mount on", o.Dest, is, needs)
		}
		v.add(o)
	}
	return nil
}

// refuseReserved refuses destinations that the engine provides.
func refuseReserved(o holder.Op) error {
	reserved, verb := []string{"/proc", "/dev", "/sys"}, "destination %q lies in %s, which the engine provides"
	if o.Hides() {
		reserved, verb = []string{"/proc", "/dev"}, "cannot hide %q, which lies in %s: the engine needs it"
		if o.Kind == holder.Missing {
			return nil // it does not exist
		}
	}
	for _, dir := range reserved {
		if paths.Inside(dir, o.Dest) {
			return Invalid(o.Why, "", verb, o.Dest, dir)
		}
	}
	if o.Dest == "/" {
		return Invalid(o.Why, `use filesystem = "host" to see the host's tree`, `destination "/" would replace the whole view`)
	}
	return nil
}

func placeError(o holder.Op, err error) error {
	if _, ok := errors.AsType[*plantedLinkError](err); ok {
		return Invalid(o.Why, "name the path that it leads to", "destination %q %v, which a command can change", o.Dest, err)
	}
	if o.Hides() {
		return Invalid(o.Why, "", "cannot hide %q: %v", o.Dest, err)
	}
	return Invalid(o.Why, "", "destination %q: %v", o.Dest, err)
}

// Invalid is an error about an attribute of a Spec.
func Invalid(attribute, hint, format string, a ...any) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: fmt.Sprintf(format, a...), Hint: hint}
}

// Unavailable is an error about this machine.
func Unavailable(err error) error {
	return &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
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
