package view

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// hostProtections protect what the host itself runs and obeys.
func (v *View) hostProtections() (list []protection) {
	for _, o := range v.in.HostPaths {
		way := v.facts.Follow(o.Path)
		// Also if an entry shows only a part of one.
		inPart := way.Err == nil && (v.writer(way.End) != nil || v.writesIn(way.End))
		p := protection{path: way.End, why: o.Description, hostOwned: o.Kind != OwnVetted}
		if o.Kind != OwnProgram && o.Kind != OwnCommand && v.replaceable(&way) != "" { // the host checks the others
			list = append(list, protection{path: o.Path, why: o.Description, mustHold: true, hostOwned: true})
		}
		switch o.Kind {
		case OwnConfig, OwnVetted:
			p.path, p.mustHold = o.Path, true
		case OwnProgram:
			// A path that does not exist cannot be mounted on, and the host checks it before it
			// runs it.
			if p.path = o.Path; v.writer(o.Path) == nil || way.Kind == Absent {
				continue
			}
		case OwnEngine, OwnState, OwnMount:
			// It is not enough that the host starts no engine from a workspace: in the next run,
			// this directory may not be in a workspace.
			if !inPart || o.Kind == OwnState && way.End == "/" {
				continue
			}
			if !o.File { // a file is there
				p.hold = &Hold{}
			}
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
		by, place := v.writer(way.End), o.Kind == OwnPlace
		if way.Err == nil && by != nil && by.Source != way.End && (place || strings.HasPrefix(by.Why, "bind_paths")) || place && v.replaceable(&way) != "" {
			list = append(list, protection{path: p, why: o.Description, hold: &Hold{}, hostOwned: true, mustHold: place})
		}
	}
	return list
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
