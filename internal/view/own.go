package view

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// hostProtections protect what the host itself runs and obeys.
func (v *View) hostProtections() (list []protection) {
	for _, o := range v.in.HostPaths {
		way := v.facts.Follow(o.Path)
		writable := way.Err == nil && v.writer(way.End) != nil
		// Also if an entry shows only a part of one.
		inPart := writable || way.Err == nil && v.writesIn(way.End)
		p := protection{path: way.End, why: o.Description, hostOwned: o.Kind != OwnVetted}
		switch o.Kind {
		case OwnConfig, OwnVetted:
			p.path, p.mustHold = o.Path, true
		case OwnProgram:
			// A path that does not exist cannot be mounted on, and the host checks it before it
			// runs it.
			if p.path = o.Path; v.writer(o.Path) == nil || way.Kind == Absent {
				continue
			}
		case OwnRecord:
			if !writable {
				continue
			}
		case OwnEngine, OwnState:
			// It is not enough that the host starts no engine from a workspace: in the next run,
			// this directory may not be in a workspace.
			if !inPart || o.File || o.Kind == OwnState && way.End == "/" {
				continue
			}
			p.hold = &Hold{}
			v.StateInReach = v.StateInReach || o.Kind == OwnState
		case OwnPlace, OwnCommand:
			if way.Err == nil && (o.Kind == OwnPlace || inPart) {
				list = append(list, v.placeProtections(&o, way.End)...)
			}
			continue
		}
		list = append(list, p)
	}
	return list
}

func (v *View) placeProtections(o *HostPath, dir string) (list []protection) {
	for _, name := range o.Names {
		p := path.Join(dir, name)
		way := v.facts.Follow(p)
		if by := v.writer(way.End); way.Err == nil && by != nil && by.Source != way.End && (o.Kind == OwnPlace || strings.HasPrefix(by.Why, "bind_paths")) {
			list = append(list, protection{path: p, why: o.Description, hold: &Hold{}, hostOwned: true})
		}
	}
	return list
}

// checkTrusted refuses a definition that would let commands replace a symlink on the way to what
// the host obeys or runs. An entry protects the target of a path, and cannot lie on a symlink on
// the way.
func (v *View) checkTrusted() error {
	if v.in.Unisolated {
		return nil
	}
	for _, o := range v.in.HostPaths {
		if o.Kind == OwnProgram || o.Kind == OwnCommand {
			continue // the host checks these before it runs them
		}
		dir, err := v.checkWay(o.Path, o.Description)
		if err != nil {
			return err
		}
		if dir == "" || v.writer(dir) == nil {
			continue // the same applies to the names in it
		}
		for _, name := range o.Names {
			if _, err := v.checkWay(path.Join(o.Path, name), o.Description); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWay is checkTrusted for one path. It returns the path's target, or "" if it cannot be
// followed.
func (v *View) checkWay(spelled, what string) (end string, err error) {
	way := v.facts.Follow(spelled)
	for _, link := range way.Links {
		by := v.writer(path.Dir(link))
		if by == nil || v.inReserved(link) {
			continue
		}
		hint := "take the symlink out of what commands can write"
		if way.Err == nil {
			hint += fmt.Sprintf(", or name what it leads to: %q", way.End)
		}
		return "", invalidf(by.Why, hint, "commands could replace the symlink %q, which leads to %s", link, what)
	}
	if way.Err != nil {
		return "", nil
	}
	return way.End, nil
}

// inReserved reports whether a path is protected as the host's own.
func (v *View) inReserved(p string) bool {
	return slices.ContainsFunc(v.in.HostPaths, func(o HostPath) bool {
		if o.Kind != OwnPlace {
			return false
		}
		dir := v.facts.Follow(o.Path)
		return dir.Err == nil && slices.ContainsFunc(o.Names, func(name string) bool {
			place := path.Join(dir.End, name)
			return place != p && paths.Inside(place, p)
		})
	})
}
