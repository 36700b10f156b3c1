package view

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// maxNested is how many repositories in writable directories work as repositories: each needs a
// dozen mounts. In others, all of .git is read-only, which needs one.
const maxNested = 32

// ShowGit shows what git needs of the workspace's repositories: for a worktree or a submodule,
// directories elsewhere. It shows no directory that an invalid .git names: one command could break the
// .git, and the next one could repair it while nothing is protected.
func (v *View) ShowGit() {
	for _, root := range v.in.Roots {
		if root.Field != "root" && !root.Writable || v.facts.Follow(root.Path).Kind != Directory {
			continue
		}
		r := v.facts.Repository(root.Path)
		layout := r.Layout
		writable := layout.Writable
		if why, _ := v.readOnlyGit(&r); why != "" || !root.Writable || root.Field == "root" && v.in.ReadOnly {
			writable = nil
		}
		for _, dir := range layout.Readable {
			// Not if an entry already shows it: that may be writable.
			if _, host := v.cover(dir); host != dir && !slices.Contains(writable, dir) {
				v.show(readOnly(dir, originGit))
			}
		}
		for _, dir := range writable {
			if !paths.Inside(root.Path, dir) {
				v.show(shared.Entry{Source: dir, Path: dir, Access: shared.ReadWrite, Why: originGit})
			}
		}
	}
}

// WritableSources are the directories of the host that commands can write to.
func (v *View) WritableSources() (list []string) {
	for _, e := range v.writableEntries() {
		list = append(list, e.Source)
	}
	return list
}

// readOnlyGit says why the git directories of a repository are read-only, for an entry and for a note: if git
// could not be asked; with a split index, because nobody knows what commands could do by its parts; if git waits
// for the command, because it would act on lists of steps, links and MERGE_RR before anybody can look at them, and
// stubs of those could confuse it; and with a symlink, on which no mount can lie.
func (v *View) readOnlyGit(r *Repository) (why, note string) {
	link := v.linkInGit(r)
	switch {
	case v.gitWritable:
	case r.Failed != nil:
		return "git, which cannot be asked what it obeys", r.Failed.Error()
	case r.Layout.Split:
		return "git, with a split index", "an index in it is split, perhaps of another worktree or a submodule: run git update-index --no-split-index there, and remove the files sharedindex.* of its git directory"
	case v.in.GitWaits:
		return "git, which waits for this command and would act on changes", ""
	case link != "":
		return "git, with a symlink", fmt.Sprintf("%q is a symlink, so git cannot commit: replace the link by its target or, for hooks, set core.hooksPath", link)
	}
	return "", ""
}

// linkInGit returns a symlink on the way to what git obeys, in a git directory that commands would write; or "".
func (v *View) linkInGit(r *Repository) string {
	obeyed := slices.Clone(r.Layout.Protected)
	for _, o := range r.Files {
		obeyed = append(obeyed, o.Path)
	}
	for _, p := range obeyed {
		for _, link := range v.facts.Follow(p).Links {
			for dir := range paths.Up(path.Dir(link)) {
				if slices.Contains(r.Layout.Protected, dir) {
					break
				} else if slices.Contains(r.Layout.Writable, dir) {
					return link
				}
			}
		}
	}
	return ""
}

// openSubmodules makes the git directories of submodules writable in the protected directory modules,
// wherever that would be writable without its protection.
func (v *View) openSubmodules(layout *workspace.GitLayout) {
	for _, dir := range layout.Writable {
		if v.gitWritable || !paths.InsideAny(layout.Protected, dir) {
			continue
		}
		for _, at := range v.pathsInside(dir) {
			if e, _ := v.cover(at); e.Access == shared.ReadWrite {
				v.show(shared.Entry{Source: dir, Path: at, Access: shared.ReadWrite, Why: originGit})
			}
		}
	}
}

// Tops are the directories whose repositories are checked without a search.
func (v *View) Tops() (tops []string) {
	for _, root := range v.in.Roots {
		if (root.Field == "root" || root.Writable) && v.facts.Follow(root.Path).Kind == Directory {
			tops = append(tops, root.Path)
		}
	}
	for _, e := range v.entries {
		if e.Access == shared.ReadWrite && ofBind(e) && !slices.Contains(tops, e.Source) && v.facts.Follow(e.Source).Kind == Directory {
			tops = append(tops, e.Source)
		}
	}
	return tops
}

// outer are the tops of the repositories elsewhere that may obey what commands write: those around a
// writable directory, and worktrees with a configuration of their own. No command could make one.
func (v *View) outer() []string {
	if v.outerTops != nil {
		return v.outerTops
	}
	tops := v.Tops()
	v.outerTops = []string{}
	add := func(list []string) {
		for _, p := range list {
			if !paths.InsideAny(tops, p) && !slices.Contains(v.outerTops, p) && len(v.outerTops) < maxNested {
				v.outerTops = append(v.outerTops, p)
			}
		}
	}
	for _, top := range tops {
		add(v.facts.Around(top))
	}
	for _, p := range slices.Concat(tops, v.outerTops) {
		add(v.facts.Repository(p).Layout.Configured)
	}
	return v.outerTops
}

// Superprojects are the repositories whose git enters the submodules that commands can make.
func (v *View) Superprojects() []string { return slices.Concat(v.Tops(), v.outer()) }

// repositories are the tops of repositories that obey what commands write: the writable directories,
// outer ones, and the first ones from the search, which work as repositories inside.
func (v *View) repositories(trees []scan.Found) []string {
	list := v.Superprojects()
	n := 0
	for _, f := range trees {
		if n < maxNested && v.nested(&f, list) {
			list = append(list, f.Path)
			n++
		}
	}
	return list
}

// nested reports whether a found repository is writable and belongs to those that the user works
// in. Commands may make, change and remove any other one: protection of what git obeys there would
// prevent removal of the directories above it, but not a new repository in its place. The host
// reports that; see [View.Reportable].
func (v *View) nested(f *scan.Found, known []string) bool {
	return (f.Reason == scan.Repository || f.Reason == scan.Bare) && !slices.Contains(known, f.Path) &&
		v.Creatable(path.Join(f.Path, ".git")) && slices.ContainsFunc(known, func(top string) bool { return v.belongs(f.Path, top) })
}

// belongs reports whether a repository is a worktree or a submodule of the repository at top or, if
// top is a directory of repositories, lies in top.
func (v *View) belongs(p, top string) bool {
	if !paths.Inside(top, p) {
		return false
	}
	if slices.Contains(Stores[:], strings.TrimPrefix(p, top)) {
		return v.isStore(p)
	}
	if v.inRepository(top) {
		w := v.facts.WorkTrees(top)
		return !w.All || slices.Contains(w.Worktrees, p) || slices.Contains(w.Submodules, p)
	}
	return slices.Contains(v.Tops(), top) && depth(top, p) <= ownDepth
}

// inRepository reports whether a directory is the top of a repository that is understood.
func (v *View) inRepository(top string) bool { return v.facts.Repository(top).Layout.CommonDir != "" }

// Stores are where jj and Sapling have a bare repository in a work tree. They run git there, which obeys it.
var Stores = [...]string{"/.jj/repo/store/git", "/.sl/store/git"}

// isStore reports whether there is a repository at one of Stores.
func (v *View) isStore(p string) bool {
	if way := v.facts.Follow(p); way.Kind != Directory || way.End != p {
		return false
	}
	return v.facts.Repository(p).Err != nil || v.inRepository(p)
}

// NestedRepositories returns the repositories that belong to the user's repositories, as their
// files say, at any depth. all says that there are no others.
func (v *View) NestedRepositories(trees []scan.Found) (found []scan.Found, all bool) {
	all = true
	for list := v.repositories(trees); len(list) > 0; list = list[1:] {
		for _, name := range Stores {
			if p := list[0] + name; v.isStore(p) {
				found = append(found, scan.Found{Path: p, Reason: scan.Bare, Dir: true, Pattern: -1})
			}
		}
		if !v.inRepository(list[0]) {
			continue
		}
		w := v.facts.WorkTrees(list[0])
		all = all && w.All
		for _, p := range slices.Concat(w.Worktrees, w.Submodules) {
			f := scan.Found{Path: p, Reason: scan.Repository, Dir: true, Pattern: -1}
			if p != list[0] && paths.Inside(list[0], p) && !v.Absent(path.Join(p, ".git")) && !slices.Contains(found, f) {
				found, list = append(found, f), append(list, p)
			}
		}
	}
	return found, all
}

// LostRepositories returns those of own, the user's repositories before a command, that exist but are
// not the user's any more: a command took one out of the index, or made a repository around it.
func (v *View) LostRepositories(now Facts, own []string) (lost []string) {
	then := *v
	then.facts = now
	for _, p := range own {
		tops, belongs := v.Superprojects(), func(top string) bool { return top != p && then.belongs(p, top) }
		if !slices.Contains(tops, p) && then.facts.Follow(p).Kind == Directory && !slices.ContainsFunc(append(tops, own...), belongs) {
			lost = append(lost, p)
		}
	}
	return lost
}

const (
	// ownDepth is the depth at which repositories are the user's own in a directory that is no
	// repository, such as a directory of clones.
	ownDepth = 2
	// reportDepth is the depth in a writable directory to which the host reports changes.
	reportDepth = 3
)

// ReportDepth is the depth of the search, from the outermost of some tops, for what the host
// reports.
func (v *View) ReportDepth(outermost []string) int {
	deepest := 0
	for _, top := range v.Tops() {
		for _, above := range outermost {
			if paths.Inside(above, top) {
				deepest = max(deepest, depth(above, top))
			}
		}
	}
	return deepest + reportDepth
}

// depth is the number of names in p below dir, which is not the root.
func depth(dir, p string) int {
	return strings.Count(strings.TrimPrefix(p, strings.TrimSuffix(dir, "/")), "/")
}

// inReportDepth reports whether a path is so near to a top that the host reports changes of it.
func (v *View) inReportDepth(p string) bool {
	return slices.ContainsFunc(v.Tops(), func(top string) bool { return paths.Inside(top, p) && depth(top, p) <= reportDepth })
}

// WritableInstruction reports whether commands can write a file that tools obey, below the top or at a
// commit, though the definition does not ask for that.
func (v *View) WritableInstruction(p string) bool {
	dir, name := Instruction(p)
	return (slices.Contains(commitInstructions, name) || !slices.Contains(v.Tops(), dir)) && v.Creatable(p) && !v.isExcepted(name)
}

// Reportable returns the found repositories and instructions for tools whose creation or change the
// host reports. unlistable are directories in which it can only try names.
func (v *View) Reportable(trees []scan.Found) (repositories, instructions, unlistable []string) {
	for _, f := range trees {
		switch _, name := Instruction(f.Path); {
		case f.Reason == scan.NameMatch && f.Dir && slices.Contains(redirectDirs[:], name):
		case f.Reason == scan.NameMatch && name != "" && v.inReportDepth(f.Path):
			instructions = append(instructions, f.Path)
		case slices.Contains([]scan.Reason{scan.Repository, scan.Bare, scan.OfWorktree}, f.Reason) && v.inReportDepth(path.Join(f.Path, ".git")):
			repositories = append(repositories, f.Path)
		case f.Reason == scan.Unsearched && v.inReportDepth(path.Join(f.Path, ".git")):
			unlistable = append(unlistable, f.Path)
		}
	}
	return slices.Compact(repositories), instructions, unlistable // one path can be found for several reasons
}

// gitProtections protect what git obeys, for all writable repositories.
func (v *View) gitProtections(trees []scan.Found) (list []*protection) {
	working := v.repositories(trees)
	for _, top := range working {
		more := v.repositoryProtections(top)
		if list = append(list, more...); len(more) > 0 && !slices.Contains(v.outer(), top) {
			v.GuardedRepositories = append(v.GuardedRepositories, top)
		}
	}
	if !v.gitWritable && !slices.ContainsFunc(working, v.inRepository) { // else git has named these for a repository
		for _, o := range v.facts.UserControls() {
			if v.exposed(o.Path) {
				list = append(list, &protection{path: o.Path, why: "git, everywhere: " + o.Description, hold: &Hold{File: o.File}, mustHold: true, repository: v.root()})
			}
		}
	}
	if v.in.Review != "" { // the review reports what would act outside
		others, _, _ := v.Reportable(trees)
		others = slices.DeleteFunc(others, func(p string) bool { return slices.Contains(working, p) })
		if more := len(others) - workspace.MaxGitActions; more > 0 {
			v.note("review: what git obeys in %d more repositories is not known, so show does not name it", more)
			others = others[:workspace.MaxGitActions]
		}
		for _, top := range others {
			r := v.facts.Repository(top)
			v.addGitControlled(&r, true)
		}
	}
	n := 0
	for _, f := range trees {
		if v.gitWritable || !v.nested(&f, working) {
			continue
		}
		n++
		m := &protection{path: f.Path, why: "git, of one repository among many"}
		if f.Reason == scan.Repository {
			m.path, m.hold = path.Join(f.Path, ".git"), &Hold{}
		}
		list = append(append(list, protection{why: m.why, repository: f.Path}.behindLinks(m.path)...), m)
	}
	if n > 0 {
		v.note("%d git repositories are in writable directories; commands cannot commit to %d of them", n+maxNested, n)
	}
	return list
}

// refuseUnlisted refuses commands that could write what git obeys in files that nobody knows, because
// git did not list them.
func (v *View) refuseUnlisted() error {
	for _, top := range v.Tops() {
		dotGit := path.Join(top, ".git")
		by := v.writer(dotGit)
		if by == nil || v.gitWritable || !v.Creatable(dotGit) {
			continue
		}
		for _, asked := range append(slices.Clone(v.outer()), top) {
			if r := v.facts.Repository(asked); r.Unlisted {
				message := fmt.Sprintf("commands in %q could write files that git runs or reads, because git does not list them: %v", top, r.Failed)
				if r.Hint != "" {
					return &shared.Error{Kind: shared.ErrUnavailable, Attribute: by.Why, Message: message, Hint: r.Hint}
				}
				return Invalid(by.Why, message, `try again, or say read_only = true or git = "full"`)
			}
		}
	}
	return nil
}

// repositoryProtections protect what git obeys in one directory.
func (v *View) repositoryProtections(top string) (list []*protection) {
	r := v.facts.Repository(top)
	dotGit := path.Join(top, ".git")
	if r.Err != nil && v.in.Review != "" { // not protected
		v.addGitControlled(&r, true)
	}
	if r.Err != nil && v.gitWritable {
		return nil
	}
	// mustHold not for a repository in a subdirectory: if a command has spoiled it, which the host
	// reported, it must not block all other commands.
	outer := slices.Contains(v.outer(), top)
	template := protection{repository: top, why: "git directory", mustHold: outer || slices.Contains(v.Tops(), top)}
	for _, p := range r.Layout.Pointers {
		if way := v.facts.Follow(p); !v.gitWritable && v.replaceableLink(&way) != "" {
			list = append(list, template.at(p, nil))
		}
	}
	switch {
	case outer && r.Err != nil:
		v.note("%v: what git obeys there is not known, so it is not protected in writable directories", r.Err)
		return list
	case r.Err != nil:
		v.note("%v: it is read-only inside, and git does not work there", r.Err)
		template.why = "git, not understood"
		for _, dir := range r.GitDirs {
			if dir != top && !v.holdsRoot(dir) { // top can be a repository itself, and more than one
				list = append(list, template.at(dir, nil))
			}
			list = append(list, template.behindLinks(dir)...)
		}
		return append(append(list, template.behindLinks(dotGit)...), &protection{path: dotGit, why: template.why, hold: &Hold{}})
	case r.Layout.CommonDir == "":
		return nil
	}
	if why, note := v.readOnlyGit(&r); why != "" {
		if note != "" && !outer {
			v.claim("the git directory %q is read-only inside: %s", r.Layout.GitDir, note)
		}
		if r.Unlisted && !template.mustHold { // for the others, refuseUnlisted has refused the command
			list = append(list, &protection{path: top, why: why})
		}
		for _, p := range [...]string{r.Layout.GitDir, r.Layout.CommonDir, dotGit} {
			if r.Failed != nil || !slices.ContainsFunc(v.writableEntries(), func(e shared.Entry) bool { return paths.Inside(p, e.Source) }) { // of a bare repository
				list = append(list, &protection{path: p, why: why})
			}
		}
		for _, p := range v.facts.WorkTrees(top).Submodules { // git status enters them
			list = append(list, &protection{path: path.Join(p, ".git"), why: why, hold: &Hold{}})
		}
	} else if !outer {
		v.openSubmodules(&r.Layout)
	}
	if !outer {
		maps.Copy(v.FixedContents, r.Layout.FixedContents)
		v.ReadOnlyWorktrees = v.ReadOnlyWorktrees || len(r.Layout.OtherWorktrees) > 0
		v.SharedRepository = v.SharedRepository || r.Shared
	}
	if top == v.root() {
		v.Settings = r.Settings
	}
	if v.gitWritable || v.in.Review != "" {
		v.addGitControlled(&r, v.gitWritable)
	}
	if v.gitWritable {
		r.Layout.Protected, r.Files = r.Layout.OtherWorktrees, nil
	}
	inGit := func(p string) string {
		return strings.TrimPrefix(strings.TrimPrefix(p, r.Layout.CommonDir+"/"), top+"/")
	}
	add := func(p, name string, hold *Hold) {
		base := path.Base(p)
		one := template.at(p, hold)
		one.why = "git " + name
		one.followsLinks = base == "remotes" || base == "branches" || base == "hooks" && r.Failed != nil || slices.Contains(r.Layout.OtherWorktrees, p) // else Files has the hooks
		list = append(list, one)
	}
	for _, p := range r.Layout.Protected {
		add(p, inGit(p), gitHold(p))
	}
	for _, p := range r.Layout.Present {
		if !v.gitWritable || path.Base(p) != ".gitmodules" {
			add(p, inGit(p), nil)
		}
	}
	for _, o := range r.Files {
		if v.exposed(o.Path) {
			add(o.Path, o.Description, &Hold{File: o.File})
		}
	}
	return list
}

// exposed reports whether commands may write a file, or lead its path elsewhere.
func (v *View) exposed(p string) bool {
	way := v.facts.Follow(p)
	return way.hasNames() || v.replaceableLink(&way) != "" || way.Err == nil && v.Creatable(way.End)
}

// addGitControlled adds what git obeys in a repository to HookDirs and, with all, GitControlled.
func (v *View) addGitControlled(r *Repository, all bool) {
	add := func(p string) {
		switch way := v.facts.Follow(p); {
		case way.Err != nil || slices.Contains(r.Layout.OtherWorktrees, p):
		case v.holdsRoot(way.End):
			v.HookDirs = append(v.HookDirs, way.End)
		case all:
			v.GitControlled = append(append(v.GitControlled, way.End), way.Links...)
		}
	}
	for _, p := range r.Layout.Protected {
		if path.Base(p) != "modules" { // all files of submodules are in it
			add(p)
		}
	}
	for _, o := range r.Files {
		add(o.Path)
	}
}

// behindLinks protects in the same way what git obeys elsewhere, through links in a git directory that
// is protected as a whole.
func (p protection) behindLinks(gitDir string) (list []*protection) {
	p.followsLinks = true
	for _, name := range workspace.ObeyedInGitDir {
		list = append(list, p.at(path.Join(gitDir, name), gitHold(name)))
	}
	return list
}
