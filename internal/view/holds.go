package view

import (
	"maps"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/workspace"
)

// A Hold is what keeps the place of a path of the host that does not exist.
type Hold struct {
	Path    string // without symlinks
	File    bool   // else an empty directory
	Content string // of a file
}

func (v *View) hold(p string, h *Hold, hides bool) {
	one := *h
	one.Path = p
	if _, had := v.held[p]; !had {
		v.Holds = append(v.Holds, one)
	}
	v.held[p] = v.held[p] || hides
}

// checkHolds refuses more than can be made before each command: by its configuration and its
// symlinks one can name any number of places that are not there, each far from what is.
func (v *View) checkHolds() error {
	missing := map[string]bool{}
	for _, h := range v.Holds {
		for at := range paths.Up(h.Path) {
			if missing[at] || v.facts.Follow(at).Kind != Absent {
				break
			}
			missing[at] = true
		}
	}
	return tooMany(slices.Collect(maps.Keys(missing)), maxProtected, "that are not there would have to be held", "protect_paths", "remove the symlinks, or the settings of git, that name them")
}

// settle says how a place is protected while nothing lies there. A symlink that leads
// nowhere is a place like any other: a command could make what it leads to. What is there
// may be another command's hold.
func (v *View) settle(p *located) {
	if len(p.way.Links) > 0 {
		if p.hold == nil {
			p.hold = &Hold{File: p.repository != ""} // git's own, but for directories that have a hold
		}
		p.ignored = p.ignored || !p.hold.File && v.inWorkTree(p.way.End)
	}
	if p.way.Kind != Absent {
		return
	}
	for dir := range paths.Up(path.Dir(p.way.End)) {
		// Beneath a file nothing can be held, and a command could put a directory in
		// its place.
		if way := v.facts.Follow(dir); way.Kind != Absent {
			if way.Kind != Directory && p.hold != nil {
				p.way, p.hold = way, nil
			}
			return
		}
	}
}

// inWorkTree reports whether a path lies in the work tree of a repository, and not in its
// git directory.
func (v *View) inWorkTree(p string) bool {
	for dir := range paths.Up(path.Dir(p)) {
		if path.Base(dir) == ".git" {
			return false
		}
		if slices.Contains(v.Tops(), dir) {
			return v.repository(dir).Layout.CommonDir != ""
		}
	}
	return false
}

// holdIgnored has what holds the place of a directory say to git, in the manner of
// many tools, that nothing is in it: git clean and git stash -u leave it alone. What
// is there can be another command's hold; a directory of somebody's is left as it is.
func (v *View) holdIgnored(p *located) {
	ignore := path.Join(p.way.End, ".gitignore")
	if p.way.Kind == Absent || v.facts.Follow(ignore).Kind == File {
		v.hold(ignore, &Hold{File: true, Content: "*\n"}, false)
	}
}

// gitHold is what holds the place of a part of a git directory, so that git
// works on while it is there.
func gitHold(p string) *Hold {
	switch path.Base(p) {
	case "commondir":
		// An empty one is an error to git, inside and outside.
		return &Hold{File: true, Content: workspace.SelfCommonDir}
	case "config", "config.worktree", "attributes", "gitdir":
		return &Hold{File: true}
	}
	return &Hold{}
}

// Absent reports whether there was nothing at a path of the host when this view was made.
func (v *View) Absent(host string) bool { return v.facts.Follow(host).Kind == Absent }
