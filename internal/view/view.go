package view

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/curated"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// A View is a table in the making.
type View struct {
	in    *Input
	facts Facts

	wholeHost   bool // the host's tree lies beneath the table
	gitWritable bool // what git obeys is not protected

	entries         []shared.Entry
	byPath          map[string]int   // index of an entry, by path inside
	bySource        map[string][]int // likewise, by path of the host
	writableSources []string         // what repository goes by
	held            map[string]bool  // paths of Holds, and whether they hide
	hostPaths       []string         // protected paths that the host would obey or run
	claims          []string         // notes that say that something is protected
	givenUp         givenUp
	hiddenAround    map[string]bool // paths of hidden entries in which deeper ones show

	// Workdir is where the workspace's root lies inside.
	Workdir string
	// WantsSession says that with a directory for the session some of what is
	// read-only is writable.
	WantsSession bool
	// Variables lead to the toolchains that are shown.
	Variables []string
	// Spellings are paths that show an entry once more, where its author has
	// spelled it through a symlink.
	Spellings []string
	// Notes say what a person should know: what is held less well than the
	// definition's author may expect.
	Notes []string
	// Remarks are for people who ask: nothing in them is held less well than
	// the definition says.
	Remarks []string

	// Holds are what has to be there while commands run.
	Holds []Hold
	// FixedContents are contents of files that are protected, as commands have to see
	// them; see workspace.GitLayout.
	FixedContents map[string][]byte
	// ReadOnlyWorktrees says that a repository has worktrees that cannot be written.
	ReadOnlyWorktrees bool
	// Shared says that git makes directories of a repository with the set-group-ID bit.
	Shared bool
	// Settings are what git in the workspace has been told by its user.
	Settings workspace.Settings
	// StateInReach says that what the host remembers lies in what commands can write,
	// and is kept from them by an entry alone.
	StateInReach bool
	// Loose are the paths that are protected less than they should be, as notes say.
	Loose []Loose
	// GuardedRepositories are the work trees of the repositories of which commands cannot change what git obeys.
	GuardedRepositories []string
	// UnreportedDirs are directories besides Tops in which earlier commands could write and nothing was told of it.
	UnreportedDirs []string
	// GitControlled is what git obeys of the repositories, where commands may write that, and the symlinks
	// on the way there.
	GitControlled []string
	// Devices are paths of device nodes that commands may use.
	Devices []string
	// Deny are the patterns of what is hidden, for what is not there yet.
	Deny []string
}

func newView(in *Input, facts Facts) *View {
	return &View{in: in, facts: facts, wholeHost: in.Filesystem == FilesystemHost, gitWritable: in.Git == GitFull, byPath: map[string]int{}, bySource: map[string][]int{},
		held: map[string]bool{}, hiddenAround: map[string]bool{}, FixedContents: map[string][]byte{}}
}

// Table gives the entries, sorted.
func (v *View) Table() []shared.Entry {
	table := slices.Clone(v.entries)
	slices.SortFunc(table, func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	// What is hidden hides all beneath it, unless deeper entries are to show in it.
	kept := table[:0]
	hidden := ""
	for _, e := range table {
		if hidden != "" && paths.Inside(hidden, e.Path) {
			continue
		}
		if kept = append(kept, e); e.Access == shared.Hidden && !v.hiddenAround[e.Path] {
			hidden = e.Path
		}
	}
	return kept
}

// put adds an entry, or replaces the one at its path.
func (v *View) put(e shared.Entry) {
	i, taken := v.byPath[e.Path]
	if !taken {
		i = len(v.entries)
		v.byPath[e.Path] = i
		v.entries = append(v.entries, e)
	} else {
		if old := v.entries[i].Source; old != "" {
			v.bySource[old] = slices.DeleteFunc(v.bySource[old], func(j int) bool { return j == i })
		}
		v.entries[i] = e
	}
	if e.Source != "" {
		v.bySource[e.Source] = append(v.bySource[e.Source], i)
	}
}

// hideAround hides a path inside but for what deeper entries show there, unless
// something is at the path.
func (v *View) hideAround(p, why string, missing shared.Missing) {
	if _, taken := v.byPath[p]; taken {
		return
	}
	v.hiddenAround[p] = true
	v.put(shared.Entry{Path: p, Access: shared.Hidden, Missing: missing, Why: why})
}

// cover is the entry that a path inside lies in, and the host's path of what
// shows there; "" where that is nothing of the host's.
func (v *View) cover(p string) (e *shared.Entry, host string) {
	for dir := range paths.Up(p) {
		i, ok := v.byPath[dir]
		if !ok {
			continue
		}
		if e = &v.entries[i]; e.Access.Shows() {
			host = paths.Move(p, dir, e.Source)
		}
		return e, host
	}
	return nil, ""
}

// places are the paths inside at which entries show a path of the host, in the
// order of the entries.
func (v *View) places(host string) (list []string) {
	var found []int
	for dir := range paths.Up(host) {
		found = append(found, v.bySource[dir]...)
	}
	slices.Sort(found)
	for _, i := range found {
		e := &v.entries[i]
		at := paths.Move(host, e.Source, e.Path)
		if _, shown := v.cover(at); shown == host && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// shown reports whether an entry shows a path of the host, or would, but for what
// lies over it.
func (v *View) shown(host string) bool {
	for dir := range paths.Up(host) {
		if len(v.bySource[dir]) > 0 {
			return true
		}
	}
	return false
}

// Creatable reports whether a command could create a path of the host.
func (v *View) Creatable(host string) bool {
	return slices.ContainsFunc(v.places(host), func(at string) bool {
		e, _ := v.cover(at)
		return e.Access == shared.ReadWrite
	})
}

// writer is the writable entry that shows a path of the host, if any does.
func (v *View) writer(host string) *shared.Entry {
	for dir := range paths.Up(host) {
		for _, i := range v.bySource[dir] {
			if v.entries[i].Access == shared.ReadWrite {
				return &v.entries[i]
			}
		}
	}
	return nil
}

// writesIn reports whether commands can write to a part of a directory of the host.
func (v *View) writesIn(dir string) bool {
	return slices.ContainsFunc(v.entries, func(e shared.Entry) bool {
		return e.Access == shared.ReadWrite && paths.Inside(dir, e.Source)
	})
}

// beneath reports whether a directory of the host lies beneath one that an entry shows.
func (v *View) beneath(dir string) bool {
	return dir != "/" && v.shown(path.Dir(dir))
}

// replaceable is the first symlink on a way that commands can replace; "" where there is none.
func (v *View) replaceable(way *Way) (link string) {
	for _, link := range slices.Concat(way.Links, v.dotDotParents("", way)) {
		if v.writer(path.Dir(link)) != nil {
			return link
		}
	}
	return ""
}

// left are the directories that a ".." leaves, on the way of a path as it is spelled
// and of the links on it, and that commands can write beside: with a symlink in the
// place of "sub", "sub/../file" is another file.
func (v *View) dotDotParents(spelled string, way *Way) (list []string) {
	all := []string{spelled}
	for i, link := range way.Links {
		target := way.Targets[i]
		if !path.IsAbs(target) {
			target = path.Dir(link) + "/" + target
		}
		all = append(all, target)
	}
	for _, s := range all {
		if !strings.Contains(s, "/..") {
			continue
		}
		names := strings.Split(s, "/")
		for i, name := range names {
			if name != ".." {
				continue
			}
			way := v.facts.Follow(strings.Join(names[:i], "/") + "/")
			if dir := way.End; way.Err == nil && len(v.bySource[dir]) == 0 && v.writer(dir) != nil && !slices.Contains(list, dir) {
				list = append(list, dir)
			}
		}
	}
	return list
}

// pinned reports whether a directory of the host has entries beneath it wherever it
// shows, so that no command can replace it.
func (v *View) pinned(dir string) bool {
	for _, at := range v.places(dir) {
		if !slices.ContainsFunc(v.entries, func(e shared.Entry) bool { return e.Path != at && paths.Inside(at, e.Path) }) {
			return false
		}
	}
	return true
}

// inHostView reports whether the host's tree alone shows a path, with no entry
// and none of the engine's own directories over it.
func (v *View) inHostView(p string) bool {
	return v.wholeHost && v.inView(p) && !paths.InsideAny([]string{"/proc", "/dev"}, p)
}

// systemView are the directories of the operating system's view.
var systemView = [...]string{"/usr", "/opt", "/nix/store"}

// inView reports whether a path of the host is there without any entry.
func (v *View) inView(p string) bool {
	if e, _ := v.cover(p); e != nil || v.home() != "" && paths.Inside(v.home(), p) {
		return false
	}
	if v.wholeHost {
		return beneathTable(shared.FilesystemHost, "", p)
	}
	return paths.InsideAny(systemView[:], p)
}

// beneathTable reports whether a path of the host, which no entry has, lies in what
// there is beneath the table. Of those directories an engine shows what does no harm.
func beneathTable(filesystem shared.Filesystem, home, p string) bool {
	switch {
	case home != "" && paths.Inside(home, p):
		return false
	case filesystem == shared.FilesystemHost:
		return !paths.InsideAny([]string{"/tmp", "/var/tmp", "/run"}, p)
	}
	return p == "/" || paths.InsideAny(systemDirs[:], p) || paths.Inside("/var", p) && curated.Shows(p)
}

// OmittedSetting reports whether a path of the host, which lies beneath the table, is one of the settings that the
// minimal view leaves out.
func OmittedSetting(spec *shared.Spec, p string) bool {
	cover, _ := shared.Cover(spec.Table, p)
	return cover == nil && spec.Filesystem == shared.FilesystemMinimal && paths.Inside("/etc", p) && !curated.Shows(p)
}

// systemDirs are the directories of the operating system, and of the kernel.
var systemDirs = [...]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/proc", "/dev", "/sys",
}

// home is the private home directory of commands; empty where there is none.
func (v *View) home() string { return Home(v.in.User.Home) }

// fallbackHome is the private home where the user's own cannot be one: nothing of the host shows in
// /run, so that it can be made there with the host's tree, too.
const fallbackHome = "/run/home"

// Home gives the place of the private home for a user's home directory, the same one but
// where that has the operating system in it, as with HOME=/ and some service accounts.
func Home(home string) string {
	if home == "" || !hasSystem(home) {
		return home
	}
	return fallbackHome
}

// hasSystem reports whether a home directory has some of the operating system in it, or lies in it.
func hasSystem(home string) bool {
	return slices.ContainsFunc(systemDirs[:], func(dir string) bool { return paths.Inside(home, dir) || paths.Inside(dir, home) })
}

// Trees are the host's files and directories that the table shows and that are
// searched, none within another. Toolchains are left out: they are programs and
// packages that anybody can download, by the hundred thousand.
func (v *View) Trees() []string {
	var all []string
	for _, e := range v.entries {
		if e.Access.Shows() && !strings.HasPrefix(e.Why, OriginToolchains) {
			all = append(all, e.Source)
		}
	}
	slices.SortFunc(all, paths.Compare)
	return paths.Outermost(all)
}

// Writable are those of the host's directories that commands can write to, none
// within another.
func (v *View) Writable() []string {
	var all []string
	for _, e := range v.entries {
		if e.Access == shared.ReadWrite {
			all = append(all, e.Source)
		}
	}
	slices.SortFunc(all, paths.Compare)
	return paths.Outermost(all)
}

// Visible reports whether a path of the host is seen inside, by an entry or as
// part of the host's tree.
func (v *View) Visible(host string) bool {
	return v.shown(host) || v.inView(host)
}

// WritableAt reports whether an entry that is writable shows a path of the host.
func (v *View) WritableAt(host string) bool { return v.writer(host) != nil }

func (v *View) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(v.Notes, note) {
		v.Notes = append(v.Notes, note)
	}
}

// claim is a note that is true while the table is held.
func (v *View) claim(format string, args ...any) {
	v.claims = append(v.claims, fmt.Sprintf(format, args...))
	v.note(format, args...)
}
