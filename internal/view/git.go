package view

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// maxNested is how many repositories in writable directories keep working as
// repositories: each needs a dozen mounts. Of those beyond it, all of .git is
// read-only, which needs one.
const maxNested = 32

// ShowGit shows what git needs of the workspace's repositories: for a worktree or
// a submodule, directories that lie elsewhere. Of a .git that does not make sense
// nothing that it names is shown: one command could else make it so and have the
// next one repair it with the protections gone.
func (v *View) ShowGit() {
	for _, root := range v.in.Roots {
		if root.Field != "root" && !root.Writable || v.facts.Follow(root.Path).Kind != Directory {
			continue
		}
		r := v.repository(root.Path)
		layout := r.Layout
		writable := layout.Writable
		if r.AskError != nil && !v.gitWritable || !root.Writable || root.Field == "root" && v.in.ReadOnly {
			writable = nil
		}
		for _, dir := range layout.Readable {
			// Not where an entry shows it already: it may be a writable one.
			if _, host := v.cover(dir); host != dir && !slices.Contains(writable, dir) {
				v.show(shared.Entry{Source: dir, Path: dir, Access: shared.ReadOnly, Why: gitOrigin(&layout, dir)})
			}
		}
		for _, dir := range writable {
			if !paths.Inside(root.Path, dir) {
				v.show(shared.Entry{Source: dir, Path: dir, Access: shared.ReadWrite, Why: gitOrigin(&layout, dir)})
			}
		}
	}
}

// repository says how git lies in a directory, where commands can write to what
// has been asked for.
func (v *View) repository(dir string) Repository {
	if v.writableSources == nil {
		for _, e := range v.entries {
			if e.Access == shared.ReadWrite && !strings.HasPrefix(e.Why, originGit) {
				v.writableSources = append(v.writableSources, e.Source)
			}
		}
	}
	return v.facts.Repository(dir, v.writableSources)
}

// openSubmodules makes the repositories of submodules writable, in a modules
// directory that is not, wherever that is shown writable.
func (v *View) openSubmodules(layout *workspace.GitLayout) {
	for _, dir := range layout.Writable {
		if v.gitWritable || !paths.InsideAny(layout.Protected, dir) {
			continue
		}
		for _, at := range v.places(dir) {
			if e, _ := v.cover(at); e.Access == shared.ReadWrite {
				v.show(shared.Entry{Source: dir, Path: at, Access: shared.ReadWrite, Why: gitOrigin(layout, dir)})
			}
		}
	}
}

// gitOrigin says what a git directory that is shown is.
func gitOrigin(layout *workspace.GitLayout, dir string) string {
	switch dir {
	case layout.GitDir:
		return originGit + "directory of the " + layout.Kind
	case layout.CommonDir:
		return originGit + "common directory"
	}
	if _, name, ok := strings.Cut(dir, "/modules/"); ok && paths.Inside(path.Join(layout.GitDir, "modules"), dir) {
		return originGit + "directory of the submodule " + name
	}
	return originGit + "common directory, " + path.Base(dir)
}

// Tops are the directories whose repositories are looked at without a search.
func (v *View) Tops() (tops []string) {
	for _, root := range v.in.Roots {
		if (root.Field == "root" || root.Writable) && v.facts.Follow(root.Path).Kind == Directory {
			tops = append(tops, root.Path)
		}
	}
	for _, e := range v.entries {
		if e.Access == shared.ReadWrite && strings.HasPrefix(e.Why, "bind_paths[") && !slices.Contains(tops, e.Source) && v.facts.Follow(e.Source).Kind == Directory {
			tops = append(tops, e.Source)
		}
	}
	return tops
}

// ReportTops are the directories in which it is told of what commands make.
func (v *View) ReportTops() []string { return slices.Concat(v.Tops(), v.UnreportedDirs) }

// repositories are the directories with repositories that commands can write to
// and that keep working: those of tops, and the first that the search has found.
func (v *View) repositories(trees *scan.Result) []string {
	list := v.Tops()
	n := 0
	for _, f := range trees.Found {
		if n < maxNested && v.nested(&f, list) && v.facts.Unsearchable(f.Path) == "" {
			list = append(list, f.Path)
			n++
		}
	}
	return list
}

// nested reports whether what was found is a repository that commands can write to, and one of
// those that the user works in. Any other one commands may make, change and remove: to protect
// what git obeys there would keep the directories above it from being removed, and nobody from
// putting another repository in its place. That is told; see [View.Reportable].
func (v *View) nested(f *scan.Found, known []string) bool {
	return (f.Reason == scan.Repository || f.Reason == scan.Bare) && !slices.Contains(known, f.Path) &&
		v.Creatable(path.Join(f.Path, ".git")) && slices.ContainsFunc(known, func(top string) bool { return v.belongs(f.Path, top) })
}

// belongs reports whether a repository is a worktree or a submodule of that of a directory,
// or lies in a directory of repositories.
func (v *View) belongs(p, top string) bool {
	if !paths.Inside(top, p) {
		return false
	}
	if r := v.repository(top); r.Err == nil && r.Layout.CommonDir != "" {
		dirs, all := v.facts.WorkTrees(top, &r.Layout)
		return !all || slices.Contains(dirs, p)
	}
	return slices.Contains(v.ReportTops(), top) && depth(top, p) <= ownDepth
}

// NestedRepositories gives, by the records of the user's repositories, the repositories that belong to them,
// however deep they lie. all says that there are no others.
func (v *View) NestedRepositories(trees *scan.Result) (found []scan.Found, all bool) {
	all = true
	for list := v.repositories(trees); len(list) > 0; list = list[1:] {
		r := v.repository(list[0])
		if r.Err != nil || r.Layout.CommonDir == "" {
			continue
		}
		dirs, complete := v.facts.WorkTrees(list[0], &r.Layout)
		all = all && complete
		for _, p := range dirs {
			f := scan.Found{Path: p, Reason: scan.Repository, Dir: true, Pattern: -1}
			if paths.Inside(list[0], p) && !slices.Contains(found, f) && v.facts.Follow(path.Join(p, ".git")).Kind != Absent {
				found, list = append(found, f), append(list, p)
			}
		}
	}
	return found, all
}

// Dropped gives those of the user's repositories that are there and are not the user's own any more:
// a command has taken one out of the index, or made a repository around it. Nil is what was known.
func (v *View) Dropped(now Facts, own []string) (lost []string) {
	then := *v
	if now != nil {
		then.facts = now
	}
	for _, p := range own {
		tops, belongs := v.ReportTops(), func(top string) bool { return top != p && then.belongs(p, top) }
		if !slices.Contains(tops, p) && then.facts.Follow(p).Kind == Directory && !slices.ContainsFunc(append(tops, own...), belongs) {
			lost = append(lost, p)
		}
	}
	return lost
}

const (
	// ownDepth is how deep in a directory that is no repository itself those lie that are
	// the user's own, as in a directory of clones.
	ownDepth = 2
	// reportDepth is how deep in a directory that commands write to lies what is told of them.
	reportDepth = 3
)

// ReportDepth is how deep what lies in the outermost of some tops is to be searched for what is told.
func (v *View) ReportDepth(outermost []string) int {
	deepest := 0
	for _, top := range v.ReportTops() {
		for _, above := range outermost {
			if paths.Inside(above, top) {
				deepest = max(deepest, depth(above, top))
			}
		}
	}
	return deepest + reportDepth
}

// depth is how many names p is below dir.
func depth(dir, p string) int {
	if p == dir {
		return 0
	}
	return strings.Count(strings.TrimPrefix(p, strings.TrimSuffix(dir, "/")), "/")
}

// near reports whether an entry of a directory lies where what commands make of it is told.
func (v *View) near(p string) bool {
	return slices.ContainsFunc(v.ReportTops(), func(top string) bool { return paths.Inside(top, p) && depth(top, p) <= reportDepth })
}

// Unguarded reports whether commands can write what tools act on below the top, which the
// definition has not asked for.
func (v *View) Unguarded(p string) bool {
	return !slices.Contains(v.Tops(), path.Dir(p)) && v.Creatable(p) && !v.givenUp.has(path.Base(p))
}

// Reportable gives, of what a search has found, the repositories and the instructions for tools of which
// it is told when a command makes or changes them. In the directories of unread they can only be
// asked for by their names.
func (v *View) Reportable(trees *scan.Result) (repositories, instructions, unread []string) {
	for _, f := range trees.Found {
		switch {
		case f.Reason == scan.NameMatch && v.near(f.Path):
			instructions = append(instructions, f.Path)
		case f.Reason == scan.Repository && v.near(path.Join(f.Path, ".git")),
			(f.Reason == scan.Bare || f.Reason == scan.OfWorktree) && v.near(path.Join(f.Path, "HEAD")):
			repositories = append(repositories, f.Path)
		case f.Reason == scan.Unsearched && v.near(path.Join(f.Path, ".git")):
			unread = append(unread, f.Path)
		}
	}
	return slices.Compact(repositories), instructions, unread // one can be several of these
}

// gitProtections are what git obeys, of all repositories that commands can write to.
func (v *View) gitProtections(found *Found) (list []protection) {
	working := v.repositories(found.Trees)
	for _, top := range working {
		if more := v.repositoryProtections(top); len(more) > 0 {
			list, v.GuardedRepositories = append(list, more...), append(v.GuardedRepositories, top)
		}
	}
	if v.in.Review != "" { // which names what would act outside
		others, _, _ := v.Reportable(found.Trees)
		others = slices.DeleteFunc(others, func(p string) bool { return slices.Contains(working, p) })
		for _, top := range others[:min(len(others), maxNested)] {
			r := v.repository(top)
			v.obeys(&r)
		}
	}
	n := 0
	for _, f := range found.Trees.Found {
		if v.gitWritable || !v.nested(&f, working) {
			continue
		}
		m := protection{path: f.Path, why: "git, in a directory that commands cannot search"}
		if v.facts.Unsearchable(f.Path) == "" {
			n++
			if m.why = "git, of one repository among many"; f.Reason == scan.Repository {
				m.path, m.hold = path.Join(f.Path, ".git"), &Hold{}
			}
			list = append(list, v.behindLinks(m.path, protection{why: m.why, repository: f.Path})...)
		}
		list = append(list, m)
	}
	if n > 0 {
		v.note("%d git repositories lie in what commands can write to; %d of them cannot be committed to inside", n+maxNested, n)
	}
	return list
}

// repositoryProtections are those of one directory.
func (v *View) repositoryProtections(top string) (list []protection) {
	r := v.repository(top)
	dotGit := path.Join(top, ".git")
	if r.Err != nil && v.gitWritable {
		return nil
	}
	// What a command made of a repository in a subdirectory was reported, and must
	// not keep all others from running.
	mustHold := slices.Contains(v.Tops(), top)
	if r.Err != nil {
		v.note("%v: it is read-only inside, and git does not work there", r.Err)
		like := protection{why: "git, not understood", mustHold: mustHold, repository: top}
		list = v.behindLinks(dotGit, like)
		for _, dir := range r.GitDirs {
			if dir == top { // which is a repository itself, and more than one
				for _, name := range ObeyedNames() {
					list = append(list, protection{path: path.Join(top, name), why: like.why, hold: gitHold(name), mustHold: mustHold, repository: top})
				}
				continue
			}
			if list = append(list, v.behindLinks(dir, like)...); !v.holdsRoot(dir) {
				like.path = dir
				list = append(list, like)
			}
		}
		return append(list, protection{path: dotGit, why: like.why, hold: &Hold{}})
	}
	if r.Layout.CommonDir == "" {
		return nil
	}
	if r.AskError != nil && !v.gitWritable {
		v.note("the git repository %q is read-only inside: %v", top, r.AskError)
		const why = "git, which cannot be asked what it obeys"
		list = []protection{{path: r.Layout.GitDir, why: why}, {path: r.Layout.CommonDir, why: why}, {path: dotGit, why: why}}
		for _, dir := range []string{r.Layout.GitDir, r.Layout.CommonDir} {
			list = append(list, v.behindLinks(dir, protection{why: why, mustHold: mustHold, repository: top})...)
		}
		return list
	}
	v.openSubmodules(&r.Layout)
	maps.Copy(v.FixedContents, r.Layout.FixedContents)
	keep := []string{r.Layout.GitDir, r.Layout.CommonDir}
	v.ReadOnlyWorktrees = v.ReadOnlyWorktrees || len(r.Layout.OtherWorktrees) > 0
	v.Shared = v.Shared || r.Shared
	if top == v.in.Roots[0].Path {
		v.Settings = r.Settings
	}
	if v.gitWritable {
		v.obeys(&r)
	}
	add := func(p string, hold *Hold) {
		if name := nameInGit(&r.Layout, top, p); name != "" {
			list = append(list, protection{path: p, why: "git " + name, hold: hold, mustHold: mustHold, repository: top, keep: keep})
		}
	}
	for _, p := range r.Layout.Protected {
		if !v.gitWritable || slices.Contains(r.Layout.OtherWorktrees, p) {
			add(p, gitHold(p))
		}
	}
	for _, p := range r.Layout.Present {
		if !v.gitWritable || path.Base(p) != ".gitmodules" {
			add(p, nil)
		}
	}
	for _, o := range r.GitControls {
		if !v.gitWritable && v.obeyedWritable(&o) {
			list = append(list, protection{path: o.Path, why: "git " + o.Description, hold: &Hold{File: o.File}, mustHold: mustHold, repository: top, keep: keep})
		}
	}
	return list
}

// obeys adds what the git of a repository obeys to Obeyed.
func (v *View) obeys(r *Repository) {
	add := func(p string) {
		if way := v.facts.Follow(p); way.Err == nil && !v.holdsRoot(way.End) && !slices.Contains(r.Layout.OtherWorktrees, p) {
			v.GitControlled = append(append(v.GitControlled, way.End), way.Links...)
		}
	}
	for _, p := range r.Layout.Protected {
		if path.Base(p) != "modules" { // in which everything of submodules lies
			add(p)
		}
	}
	for _, o := range r.GitControls {
		add(o.Path)
	}
}

// nameInGit is what a path is called within its git directory or work tree; "" where
// it lies in neither.
func nameInGit(layout *workspace.GitLayout, top, p string) string {
	for _, base := range [...]string{layout.GitDir, layout.CommonDir, top} {
		if paths.Inside(base, p) {
			return strings.TrimPrefix(p, base+"/")
		}
	}
	return ""
}

// obeyedWritable reports whether commands could write, or lead elsewhere, what the git
// of a repository obeys.
func (v *View) obeyedWritable(o *GitControl) bool {
	way := v.facts.Follow(o.Path)
	return v.replaceable(&way) != "" || len(v.dotDotParents(o.Path, &way)) > 0 || way.Err == nil && v.Creatable(way.End)
}

// ObeyedNames are what git obeys of a git directory, by their names in it.
func ObeyedNames() []string {
	return []string{"hooks", "config", "config.worktree", "commondir", "info/attributes", "remotes", "branches"}
}

// behindLinks protects, as like is protected, what git obeys of a git directory and lies
// elsewhere, where that directory itself is protected as a whole.
func (v *View) behindLinks(gitDir string, like protection) (list []protection) {
	add := func(p string, hold *Hold) {
		if len(v.facts.Follow(p).Links) > 0 {
			like.path, like.hold = p, hold
			list = append(list, like)
		}
	}
	for _, name := range ObeyedNames() {
		add(path.Join(gitDir, name), gitHold(name))
	}
	if hooks := v.facts.Follow(path.Join(gitDir, "hooks")); hooks.Kind == Directory {
		for _, link := range v.facts.LinksIn(hooks.End).Symlinks {
			add(link, nil)
		}
	}
	return list
}
