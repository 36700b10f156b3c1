package view

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// hostProtections protect what the host itself runs and obeys.
func (v *View) hostProtections() (list []*protection) {
	for _, o := range v.in.HostPaths {
		way := v.facts.Follow(o.Path)
		// An entry may show only a part of it.
		inPart := way.Err == nil && (v.writer(way.End) != nil || v.writesIn(way.End))
		p := &protection{path: way.End, why: o.Description, hostOwned: o.Kind != HostCheckedConfig}
		if v.mayLead(&o, &way) { // the host checks programs before it runs them
			list = append(list, &protection{path: o.Path, why: o.Description, mustHold: true, hostOwned: true})
		}
		switch o.Kind {
		case HostConfig, HostCheckedConfig:
			p.path, p.mustHold = o.Path, true
		case HostDir, HostState:
			// Also if the host starts no engine from a workspace: in its next run, this directory may not
			// be in one.
			if !inPart || o.Kind == HostState && way.End == "/" {
				continue
			}
			if !o.File { // prepare has made a file
				p.hold = &Hold{}
			}
		case HostNames, HostPathNames:
			if way.Err == nil && (o.Kind == HostNames || slices.ContainsFunc(v.writableEntries(), ofBind)) {
				list = append(list, v.nameProtections(&o, way.End)...)
			}
			continue
		}
		list = append(list, p)
	}
	return list
}

// nameProtections protect names in a directory.
func (v *View) nameProtections(o *HostPath, dir string) (list []*protection) {
	for _, name := range o.Names {
		p := path.Join(dir, name)
		way := v.facts.Follow(p)
		by, anywhere, link := v.writer(way.End), o.Kind == HostNames, v.mayLead(o, &way)
		given := by != nil && by.Source == way.End && !(anywhere && way.Kind == File) // a directory such as ~/.docker, but no program
		if way.Err == nil && by != nil && !given && (anywhere || ofBind(*by)) || link {
			list = append(list, &protection{path: p, why: o.Description, hold: &Hold{}, hostOwned: true, mustHold: anywhere || link})
		}
	}
	return list
}

func ofBind(e shared.Entry) bool { return strings.HasPrefix(e.Why, "bind_paths") }

// mayLead reports whether commands can replace a symlink on a way; of a directory of PATH, only in bind_paths.
func (v *View) mayLead(o *HostPath, way *Way) bool {
	return slices.ContainsFunc(v.replaceableLinks(way), func(link string) bool {
		return o.Kind != HostPathNames || ofBind(*v.writer(path.Dir(link)))
	})
}
