package view

import (
	"maps"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/workspace"
)

// A Hold is a stub at a path of the host that does not exist.
type Hold struct {
	Path    string // without symlinks
	File    bool   // else an empty directory
	Content string // of a file
	InStub  bool   // only in a directory that is a stub itself, and not somebody's
}

func (v *View) hold(p string, h *Hold, hides bool) {
	one := *h
	one.Path = p
	if _, had := v.held[p]; !had {
		v.Holds = append(v.Holds, one)
	}
	v.held[p] = v.held[p] || hides
}

// checkHolds refuses more stubs than the host can make before each command: a repository's
// configuration and symlinks can name any number of missing paths in different directories.
func (v *View) checkHolds() error {
	missing := map[string]bool{}
	for _, h := range v.Holds {
		for at := range paths.Up(h.Path) {
			if missing[at] || !v.Absent(at) {
				break
			}
			missing[at] = true
		}
	}
	return tooMany(slices.Collect(maps.Keys(missing)), "that are not there would have to be held", "protect_paths", "remove the symlinks, or the settings of git, that name them")
}

// chooseHold chooses the stub for a missing path. For a symlink, it is a stub of the target, which a
// command could make; also of an existing one, which may be another command's stub.
func (v *View) chooseHold(p *protection) *protection {
	if len(p.way.Links) > 0 && p.hold == nil {
		p.hold = &Hold{File: p.repository != ""} // what git obeys is a file, unless its protection has a hold
	}
	if p.way.Kind != Absent {
		return p
	}
	for dir := range paths.Up(path.Dir(p.way.End)) {
		// Beneath a file nothing can be held. The file is protected: a command could replace it by a directory.
		if way := v.facts.Follow(dir); way.Kind != Absent {
			if way.Kind != Directory && p.hold != nil {
				file := *p
				file.way, file.hold = way, nil
				return &file
			}
			break
		}
	}
	return p
}

// inWorkTree reports whether a path is in the work tree of a repository, and not in its git
// directory.
func (v *View) inWorkTree(p string) bool {
	for dir := range paths.Up(path.Dir(p)) {
		if path.Base(dir) == ".git" {
			return false
		}
		if slices.Contains(v.Tops(), dir) {
			return v.inRepository(dir)
		}
	}
	return false
}

// gitFiles are the parts of a git directory that are files, with what a stub must contain so that git still
// works: inside and outside, it fails at an empty commondir.
var gitFiles = map[string]string{"commondir": workspace.SelfCommonDir, "config": "", "config.worktree": "", "attributes": "", "gitdir": ""}

// gitHold is a stub in a git directory.
func gitHold(p string) *Hold {
	content, file := gitFiles[path.Base(p)]
	return &Hold{File: file, Content: content}
}

// Absent reports whether a path of the host did not exist at the first look.
func (v *View) Absent(host string) bool { return v.facts.Follow(host).Kind == Absent }
