//go:build unix

package facts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/workspace"
)

// stateOf returns the state of the repository in a directory: which one git uses there, what git would
// continue or use, and reasons why git may act there on something unknown: links, submodules that are not
// known, or an invalid git directory, in place of which git uses another.
func (f *lookup) stateOf(out *Resolution, top string) workspace.Acts {
	l, err := f.layout(top)
	used, r := []workspace.GitLayout{l}, workspace.Acts{}
	r.Uses(top, fmt.Sprintf("%q %q", l.GitDir, l.CommonDir))
	if err != nil {
		r.Uses(top, "one that is not understood")
		used = workspace.PointedLayouts(top)
		r.Unclear(err.Error())
	} else if l.GitDir == "" {
		r.Unclear(fmt.Sprintf("git: most of the repository %q is elsewhere, or gone", top))
	}
	if warning := workspace.BareWithDotGit(top); warning != "" {
		r.Unclear(warning)
	}
	if w, looked := f.workTrees[top]; looked && !w.All {
		r.Unclear(fmt.Sprintf("git: not all submodules of %q are known", top))
	}
	for _, l := range used {
		if out.Spec.BestEffort {
			l.Protected = nil // commands may be able to write other worktrees' git directories
		}
		if err != nil && !out.Readable(l.CommonDir) { // a command can point to any directory: name nothing there
			l.CommonDir = l.GitDir
		}
		if err != nil && !out.Readable(l.GitDir) {
			continue
		}
		r.AddPending(l, f.left)
		r.AddLinks(l, f.gitLinks)
	}
	return r
}

// baseline is the state of everything whose changes the host reports: the host compares two of them.
type baseline struct {
	Began            time.Time
	UserRepositories []string // repositories whose submodules git enters
	Repositories     map[string]workspace.Acts
	Instructions     []string
	Unlistable       []string                   // directories that cannot be listed
	Unprotected      map[unprotectedPath]string // their states
	Submodules       map[string]string
	OpenRepositories []string             // repositories in which a command may change what git acts on
	GitActions       workspace.GitActions // what git acts on in those
	Commits          int                  // in Resolution.headLog
	LostWorktrees    []string             // paths of recorded worktrees that are missing
	Worktrees        []string             // paths of the others, if commands can write them
	Protected        []WatchedPath        // at the end of a command: what was protected from its processes that go on
}

// look returns the current state.
func (m *Machine) look(out *Resolution, look *lookup, found []scan.Found) (b baseline) {
	b.Began = time.Now().Add(-clockDelay)
	// Editors run git status also in repositories that are not the user's.
	var repositories []string
	repositories, b.Instructions, b.Unlistable = out.reportable(found)
	own := append(out.Superprojects(), out.userRepositories()...)
	b.UserRepositories = slices.Concat(own, repositories)
	b.Submodules = look.submodules(b.UserRepositories, out.Tops())
	for _, top := range own {
		l, _ := look.layout(top)
		b.LostWorktrees = append(b.LostWorktrees, l.Lost...)
		b.Worktrees = append(b.Worktrees, slices.DeleteFunc(slices.Clone(look.workTrees[top].Worktrees), func(p string) bool { return !paths.InsideAny(out.Tops(), p) })...)
	}
	slices.Sort(b.Worktrees)
	repositories = addRepositories(repositories, slices.Concat(slices.Sorted(maps.Keys(b.Submodules)), b.Worktrees))
	b.Instructions = slices.DeleteFunc(b.Instructions, isStubDir)
	b.Repositories, b.Unprotected = map[string]workspace.Acts{}, map[unprotectedPath]string{}
	for _, top := range repositories {
		b.Repositories[top] = look.stateOf(out, top)
	}
	for _, l := range out.WeakProtections {
		if l.Repository != "" {
			b.OpenRepositories = append(b.OpenRepositories, l.Repository)
			continue
		}
		to := unprotectedPath{Path: l.Path, TargetOnly: true}
		b.Unprotected[to] = to.state(look.left)
	}
	users := oneOf(out.userRepositories())
	for _, top := range repositories {
		_, err := look.layout(top) // after an error, nobody knows what to protect besides the git directory
		if err != nil || !users(top) {
			b.OpenRepositories = append(b.OpenRepositories, top)
		}
	}
	for _, p := range b.Instructions {
		if file := (unprotectedPath{Path: p, Removable: true}); out.WritableInstruction(p) {
			b.Unprotected[file] = file.state(look.left)
		}
	}
	if out.gitUnprotected { // also those elsewhere that obey what commands write
		b.OpenRepositories = append(slices.DeleteFunc(out.Superprojects(), oneOf(repositories)), repositories...)
	}
	const mostLog = 64 << 20
	log, _ := hostpath.ReadNoSymlinks(out.headLog, mostLog)
	b.Commits = bytes.Count(log, []byte("\tcommit"))
	return b
}

// acts returns what git acts on in some repositories, in bounded time: commands may have made them.
func (f *lookup) acts(out *Resolution, tops []string) workspace.GitActions {
	ctx, cancel := context.WithTimeout(f.ctx, inspectionTimeout)
	defer cancel()
	return f.m.Workspace.GitActions(ctx, f.layout, out.Readable, tops, f.m.Owner.gitUser(), f.left)
}

// oneOf returns a fast function that reports whether a list has a string: a project can have tens of
// thousands of paths.
func oneOf(list []string) func(string) bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return func(s string) bool { return set[s] }
}

// userRepositories are the user's repositories, also those that a command has just taken from them.
func (out *Resolution) userRepositories() []string {
	return slices.Concat(out.GuardedRepositories, slices.DeleteFunc(slices.Clone(out.earlierRepositories), oneOf(out.GuardedRepositories)))
}

// ContinueFrom makes the end of the previous command the baseline of this one, in a session whose
// processes go on: this command reports what they make in between.
func (out *Resolution) ContinueFrom(last *Resolution) {
	if last.HasLastLook() {
		out.baseline, out.earlierRepositories = *last.lastLook, last.GuardedRepositories
		out.baseline.Unprotected = maps.Clone(out.baseline.Unprotected) // several commands can go on from there
	}
}

// An unprotectedPath is one that the engine cannot protect, or that a command can lead elsewhere.
type unprotectedPath struct {
	Path       string
	TargetOnly bool // only where the path leads is compared
	Removable  bool // a command may remove it unreported
}

// state returns the present state of the path, as a text to compare.
func (u *unprotectedPath) state(left *workspace.Budget) string {
	if u.TargetOnly {
		way := Follow(u.Path)
		return fmt.Sprintf("%q%q%q", way.Links, way.DotDots, way.End)
	}
	if isStubDir(u.Path) { // another command's stub
		return ""
	}
	return workspace.Fingerprint(u.Path, left)
}

// LeaveUnprotected removes the holds that an engine without mount.nested cannot protect. The host
// reports what a command makes or changes there; for git, what git acts on.
func (out *Resolution) LeaveUnprotected() error {
	left, err := out.View.LeaveUnprotected(out.Spec.Table)
	budget := workspace.NewBudget()
	for _, e := range left {
		list := []string{e.Source}
		if filepath.Base(filepath.Dir(e.Source)) == "worktrees" { // of a worktree elsewhere, which nobody asks git about
			list = []string{filepath.Join(e.Source, "commondir"), filepath.Join(e.Source, "gitdir"), filepath.Join(e.Source, "config.worktree")}
		}
		for _, p := range list {
			u, state := unprotectedPath{Path: p}, ""
			if !out.Absent(p) {
				state = u.state(budget)
			}
			asked := p == e.Source && filepath.Base(p) != ".gitmodules" && strings.HasPrefix(e.Why, "protected: git ")
			if state == "" || !asked {
				out.baseline.Unprotected[u] = state
			}
		}
	}
	return err
}

// Changes is what changed while a command ran.
type Changes struct {
	Repositories  []RepositoryReport
	Instructions  []string
	LostWorktrees []string // paths of worktrees that ended with the command
	Notes         []string // how many paths are not in the lists
	Truncated     []string // those paths
	Unsigned      bool     // the command made a commit, which the user would have signed
}

// reportable is [view.View.Reportable] with the names that exist in unlistable directories, and with the
// user's repositories, which are reported at any depth.
func (out *Resolution) reportable(found []scan.Found) (repositories, instructions, unlistable []string) {
	repositories, instructions, unlistable = out.Reportable(found)
	for _, dir := range unlistable { // a command may have made it so
		for _, name := range view.InstructionNames {
			if p := filepath.Join(dir, name); Follow(p).Kind != view.Absent {
				instructions = append(instructions, p)
			}
		}
	}
	more := slices.Concat(unlistable, out.userRepositories())
	for _, top := range out.Tops() {
		for _, name := range view.Stores {
			more = append(more, top+name)
		}
	}
	return addRepositories(slices.DeleteFunc(repositories, passedOver), more), instructions, unlistable
}

// addRepositories adds those of some paths that have a .git or can be bare, such as what git enters by
// itself or lists.
func addRepositories(to, list []string) []string {
	for _, p := range list {
		if !slices.Contains(to, p) && (Follow(filepath.Join(p, ".git")).Kind != view.Absent || workspace.MayBeBare(p)) && !passedOver(p) {
			to = append(to, p)
		}
	}
	return to
}

// passedOver reports whether a path is the git directory of a worktree, or has an empty .git, which git
// ignores: a command that fills it has made the repository.
func passedOver(p string) bool {
	dotGit := filepath.Join(p, ".git")
	if _, err := os.Lstat(dotGit); errors.Is(err, fs.ErrNotExist) { // with a .git, it is a work tree, whatever else it contains
		return workspace.OfWorktree(p)
	}
	return workspace.HasOnly(dotGit, "") && !workspace.MayBeBare(p)
}

// ignored returns those of some paths that git ignored before the command.
func (m *Machine) ignored(out *Resolution, look *lookup, list []string) (ignored []string) {
	for _, root := range m.Workspace.Roots() {
		// Everything at the top is reported.
		in := slices.DeleteFunc(slices.Clone(list), func(p string) bool {
			dir, name := view.Instruction(p)
			return !paths.Inside(root.Path, p) || name != "" && slices.Contains(out.Tops(), dir)
		})
		if l, err := look.layout(root.Path); len(in) > 0 && err == nil && l.CommonDir != "" {
			ignored = append(ignored, m.Workspace.Ignored(look.ctx, root.Path, l, m.Owner.gitUser(), in, out.baseline.Began)...)
		}
	}
	return ignored
}

// newInstructions returns the unprotected files that were made or changed, and new files at paths
// that are not held.
func (out *Resolution) newInstructions(now *baseline, left *workspace.Budget) (made []string) {
	for u, was := range out.baseline.Unprotected {
		is, ok := now.Unprotected[u]
		if !ok {
			is = u.state(left)
		}
		if is != was && !(u.Removable && is == "") {
			made = append(made, u.Path)
		}
	}
	slices.Sort(made)
	made = slices.Compact(made)
	known, changed := oneOf(out.baseline.Instructions), oneOf(made)
	for _, p := range now.Instructions {
		held := slices.ContainsFunc(out.Holds, func(h view.Hold) bool { return h.Path == p && h.File && isOnlyStub(&h) })
		if !held && !known(p) && !changed(p) {
			made = append(made, p)
		}
	}
	return made
}

// isOnlyStub reports whether the held path of a file has its stub or nothing. Somebody outside of the
// sandbox may have removed the stub, and then a command may make the path.
func isOnlyStub(h *view.Hold) bool {
	text, err := hostpath.ReadNoSymlinks(h.Path, int64(len(h.Content)))
	return errors.Is(err, fs.ErrNotExist) || err == nil && string(text) == h.Content
}

// isStubDir reports whether p is nothing, or a directory such as the stub of another command, whose
// engine may protect it though this one's does not. A command can make such a directory itself, but the
// host reports the command that fills it.
func isStubDir(p string) bool { return workspace.HasOnly(p, ".gitignore") }

// Changes finds what changed since the start of the command.
func (m *Machine) Changes(out *Resolution) (made Changes) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectionTimeout)
	defer cancel()
	look := newLookup(ctx, m, out.WritableSources())
	found, err := out.searchAgain()
	if err != nil {
		made.unclear(m.Workspace.Root(), fmt.Sprintf("the repositories in it cannot be looked for: %.300q", err.Error()))
	}
	now := m.look(out, look, found)
	if err == nil && out.Spec.Session.Processes { // the next command reports changes from now on
		now.GitActions, now.Protected, out.lastLook = look.acts(out, now.OpenRepositories), out.WatchedPaths, &now
	}
	made.Unsigned = now.Commits > out.baseline.Commits
	m.compare(out, look, &now, &made)
	return made
}

// compare finds how the state now differs from that before the command.
func (m *Machine) compare(out *Resolution, look *lookup, now *baseline, made *Changes) {
	lost := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(now.LostWorktrees))), oneOf(out.baseline.LostWorktrees))
	made.LostWorktrees = lost[:min(len(lost), maxChanges)]
	made.Instructions = out.newInstructions(now, look.left)
	changed := look.acts(out, out.baseline.OpenRepositories).Since(out.baseline.GitActions, out.gitUnprotected)
	repositories := slices.Collect(maps.Keys(now.Repositories))
	for dir := range changed {
		if _, found := now.Repositories[dir]; !found {
			repositories = append(repositories, dir) // such as the git directory of a submodule that is not checked out
		}
	}
	slices.Sort(repositories)
	var foreign []string // repositories that git status does not enter: git may ignore them
	for _, p := range repositories {
		_, acts := changed[p]
		_, existing := out.baseline.Repositories[p]
		if (acts || !existing) && now.Submodules[p] == "" && !slices.Contains(now.Worktrees, p) && !slices.Contains(out.userRepositories(), p) {
			foreign = append(foreign, p)
		}
	}
	isIgnored := oneOf(m.ignored(out, look, slices.Concat(made.Instructions, foreign)))
	made.Instructions = slices.DeleteFunc(made.Instructions, isIgnored)
	repositories = slices.DeleteFunc(repositories, isIgnored)
	var replaced []string
	for _, w := range out.baseline.Protected { // no mount was on a file that took its place
		if is, err := w.replaced(); is && (w.loss == unmakes || err == nil && w.loss == unprotects) {
			replaced = append(replaced, w.path)
		}
	}
	if len(replaced) > 0 { // mostly by the user's editor or git, and nobody knows who wrote there since
		made.unclear(m.Workspace.Root(), "replaced from outside of the session, whose processes may have written there since: "+hostpath.QuoteList(replaced))
	}

	if len(made.Instructions) > maxChanges { // a command may have made many to hide one among them
		slices.SortStableFunc(made.Instructions, deeper)
		made.Instructions, made.Truncated = made.Instructions[:maxChanges], made.Instructions[maxChanges:]
		made.Notes = append(made.Notes, fmt.Sprintf("more than %d instructions for tools were made or changed: the others are not listed", maxChanges))
	}
	unlistable := slices.DeleteFunc(slices.Clone(now.Unlistable), oneOf(out.baseline.Unlistable))
	for _, dir := range unlistable[:min(len(unlistable), maxChanges)] {
		made.unclear(dir, "it cannot be listed, so what a command put there is not known")
	}
	if n := len(unlistable) - maxChanges; n > 0 {
		made.unclear(m.Workspace.Root(), fmt.Sprintf("%d more writable directories cannot be listed", n))
		made.Truncated = append(made.Truncated, unlistable[maxChanges:]...)
	}
	if n := len(out.baseline.OpenRepositories); n > workspace.MaxGitActions {
		made.unclear(m.Workspace.Root(), fmt.Sprintf("of the %d repositories in writable directories, git was asked about only %d", n, workspace.MaxGitActions))
	}
	for _, top := range out.unknown {
		made.unclear(top, "an earlier command ended without a report, and may have changed it in a way that nobody knows")
	}
	for _, p := range out.LostRepositories(look, out.userRepositories()) {
		made.unclear(p, "it is no longer one of your repositories: the next command can change what git obeys there")
	}
	reports, more := m.repositoryReports(out, look, now, repositories, changed)
	if len(more) > 0 {
		made.unclear(m.Workspace.Root(), fmt.Sprintf("%d more repositories were made or changed in writable directories", len(more)))
		made.Truncated = append(made.Truncated, more...)
	}
	made.Repositories = append(reports, made.Repositories...)
}

// unclear adds the reason why nobody knows what git acts on in a directory that existed before.
func (made *Changes) unclear(dir, why string) {
	made.Repositories = append(made.Repositories, RepositoryReport{Path: dir, Existing: true, Unclear: why})
}

// repositoryReports returns the reports of repositories that were made, and of those that existed
// and are others now. changed has, by repository, what git acts on now and did not before. more are
// the repositories for which there is no space left.
func (m *Machine) repositoryReports(out *Resolution, look *lookup, now *baseline, list []string, changed map[string]workspace.Change) (reports []RepositoryReport, more []string) {
	before := workspace.Acts{} // of all repositories: what git acts on in a worktree is in its main repository too
	for _, r := range out.baseline.Repositories {
		maps.Copy(before, r)
	}
	slices.SortStableFunc(list, func(a, b string) int { // first those that git status of another repository enters
		return strings.Compare(now.Submodules[b], now.Submodules[a])
	})
	for _, p := range list {
		from := now.Submodules[p]
		joined := from != out.baseline.Submodules[p] && from != ""
		_, existing := out.baseline.Repositories[p]
		is, found := now.Repositories[p]
		report := RepositoryReport{Path: p, Superproject: from, Existing: !joined && (existing || !found)}
		var change workspace.Change
		if len(reports) < maxChanges || report.Existing {
			if !found {
				is = look.stateOf(out, p)
			}
			change = is.Since(before, false, look.left)
			maps.Copy(before, is)
		}
		acting, acts := changed[p]
		switch {
		case report.Existing && len(change.ActsOn)+len(change.Unclear) == 0 && !acts:
			continue
		case len(reports) >= maxChanges:
			more = append(more, p)
			continue
		case !report.Existing, change.Other != "": // an earlier command may have prepared the other one
			acting = look.acts(out, []string{p}).Since(nil, false)[p]
		}
		report.fill(slices.Concat(acting.ActsOn, change.ActsOn), slices.Concat(acting.Unclear, slices.DeleteFunc(change.Unclear, oneOf(acting.Unclear))))
		reports = append(reports, report)
	}
	return reports, more
}

// ChangesSince finds what changed since the end of the last command of a session, when nothing of
// the session runs any more.
func (m *Machine) ChangesSince(last *Resolution) Changes {
	last.ContinueFrom(last)
	last.Spec.Session.Processes = false
	return m.Changes(last)
}

// clockDelay is the maximal delay of a file system's clock.
const clockDelay = 10 * time.Millisecond

// maxChanges bounds the reported paths of one command, of each kind.
const maxChanges = 32

// inspectionTimeout bounds the time to look at repositories that a command may have made.
const inspectionTimeout = 10 * time.Second
