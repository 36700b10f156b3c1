package view

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/curated"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// Input is the input for a table.
type Input struct {
	Definition
	Roots         []workspace.RootDir // of the workspace, the project first
	HideSensitive bool
	// Unisolated says that commands run without isolation: then nothing is searched or hidden.
	Unisolated bool

	UID        uint32 // of the user that commands run as
	Home       string // of this user: absolute, or empty
	CallerHome string // of the caller, if that is another user; else Home
	// Unmapped says that an engine may run commands in a user namespace in which root is nobody.
	Unmapped bool
	// Homes are all homes of the commands' user: the host's view hides them.
	Homes []string

	SessionDir   string    // where commands share files; empty: nowhere
	SessionHome  string    // the home directory inside; empty leaves that to the engine
	SessionBases []string  // resolved directories of sessions, of this host and others
	Toolchain    []ToolDir // nil shows no toolchains
	Agent        string    // the socket of the caller's ssh-agent, if Credentials has it
	// Substitutes are files that commands see in place of the host's: /etc/passwd, certificates.
	Substitutes []Substitute

	HostPaths []HostPath
	Control   []ControlSocket
	// GitWaits says that git has started this program, as a hook for example, and goes on when the
	// command ends.
	GitWaits bool
	// Outer are the top levels of repositories around a root that was discovered.
	Outer []string
	// Written returns the directory with a path that commands of any definition can write, in words,
	// or "". It may be nil.
	Written func(path string) string
}

// A View is a table in the making.
type View struct {
	in    *Input
	facts Facts

	wholeHost   bool // the host's tree is beneath the table
	gitWritable bool // what git obeys is not protected

	entries        []shared.Entry
	byPath         map[string]int   // index of an entry, by path inside
	bySource       map[string][]int // indexes of entries, by path of the host
	outerTops      []string         // for outer
	held           map[string]bool  // paths of Holds, and whether they hide
	hostPaths      []string         // protected paths that the host would obey or run
	claims         []string         // notes that claim a protection
	exceptions     []string         // names of protect_paths_except
	grantedSockets []string         // sockets that commands may connect to
	protections    []*protection    // but for those of protect_paths
	sources        []spelling       // of entries
	homes          []string         // directories of Homes, resolved
	hiddenAround   map[string]bool  // hidden paths in which deeper entries show

	// Deny and Protect are the definition's, and HardLinks those of HardLinkRules.
	Deny, Protect, HardLinks []Rule
	// WantsSession says that some read-only paths could be writable if the session had a directory.
	WantsSession bool
	// Variables are names of variables that lead to the shown toolchains.
	Variables []string
	// Spellings are additional paths of entries, as their authors spelled them through symlinks.
	Spellings []string
	// Notes say what a person should know: protections that are weaker than the definition's author
	// may expect.
	Notes []string
	// Remarks are for people who ask for them. Nothing in them is weaker than the definition says.
	Remarks []string

	// Holds are the stubs that must exist while commands run.
	Holds []Hold
	// FixedContents are the contents of protected files that commands must see; see
	// workspace.GitLayout.
	FixedContents map[string][]byte
	// ReadOnlyWorktrees says that a repository has read-only worktrees.
	ReadOnlyWorktrees bool
	// SharedRepository says that git makes directories of a repository with the set-group-ID bit.
	SharedRepository bool
	// Settings are the user's settings for git in the workspace.
	Settings workspace.Settings
	// WeakProtections are those that Notes report.
	WeakProtections []WeakProtection
	// GuardedRepositories are the work trees of repositories in which commands cannot change what
	// git obeys.
	GuardedRepositories []string
	// GitControlled is what git obeys in the repositories in which commands may write that, with
	// the symlinks on the way.
	GitControlled []string
	// HookDirs contain a root, so they cannot be protected. Git executes what lies directly in them.
	HookDirs []string
	// Devices are paths of device nodes that commands may use.
	Devices []string
}

// Table returns the entries, sorted.
func (v *View) Table() []shared.Entry {
	table := slices.Clone(v.entries)
	slices.SortFunc(table, func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	// A hidden entry hides all beneath it, except for deeper entries that show.
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
		old := v.entries[i].Source
		v.bySource[old] = slices.DeleteFunc(v.bySource[old], func(j int) bool { return j == i })
		v.entries[i] = e
	}
	v.bySource[e.Source] = append(v.bySource[e.Source], i)
}

// hideExceptEntries hides a path inside, except for deeper entries, unless the path is taken.
func (v *View) hideExceptEntries(p, why string, missing shared.Missing) {
	if _, taken := v.byPath[p]; taken {
		return
	}
	v.hiddenAround[p] = true
	v.put(shared.Entry{Path: p, Access: shared.Hidden, Missing: missing, Why: why})
}

// cover is the entry that covers a path inside, and the host's path that shows there; "" if there
// is none.
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

// pathsInside are the paths at which entries show a path of the host, in the order of the
// entries.
func (v *View) pathsInside(host string) (list []string) {
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

// shown reports whether an entry shows a path of the host, even if another one covers it.
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
	return slices.ContainsFunc(v.pathsInside(host), func(at string) bool {
		e, _ := v.cover(at)
		return e.Access == shared.ReadWrite
	})
}

// writer is the writable entry that shows a path of the host, or nil.
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

// beneath reports whether an entry shows a directory above a directory of the host.
func (v *View) beneath(dir string) bool {
	return dir != "/" && v.shown(path.Dir(dir))
}

// replaceableLink is the first of replaceableLinks, or "".
func (v *View) replaceableLink(way *Way) string { return cmp.Or(v.replaceableLinks(way)...) }

// replaceableLinks are the symlinks of a way that commands can replace, and the directories that a ".."
// leaves: with a symlink in place of "sub", "sub/../file" is another file.
func (v *View) replaceableLinks(way *Way) (list []string) {
	for _, p := range slices.Concat(way.Links, way.DotDots) {
		if v.writer(path.Dir(p)) != nil && len(v.bySource[p]) == 0 && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// hasEntriesBeneath reports whether a directory of the host has entries beneath it wherever it shows, so that
// no command can replace it.
func (v *View) hasEntriesBeneath(dir string) bool {
	for _, at := range v.pathsInside(dir) {
		if !slices.ContainsFunc(v.entries, func(e shared.Entry) bool { return e.Path != at && paths.Inside(at, e.Path) }) {
			return false
		}
	}
	return true
}

// inHostView reports whether only the host's tree shows a path, without an entry or a directory of
// the engine over it.
func (v *View) inHostView(p string) bool {
	return v.wholeHost && v.inView(p) && !paths.InsideAny([]string{"/proc", "/dev"}, p)
}

// inView reports whether a path of the host shows without any entry.
func (v *View) inView(p string) bool {
	if e, _ := v.cover(p); e != nil || v.home() != "" && paths.Inside(v.home(), p) {
		return false
	}
	if v.wholeHost {
		return beneathTable(shared.FilesystemHost, "", p)
	}
	return paths.InsideAny([]string{"/usr", "/opt", "/nix/store"}, p) // the parts of the operating system that show as a whole
}

// beneathTable reports whether the view beneath the table shows a path of the host that no entry covers.
// In system directories, an engine shows only a harmless part.
func beneathTable(filesystem shared.Filesystem, home, p string) bool {
	switch {
	case home != "" && paths.Inside(home, p):
		return false
	case filesystem == shared.FilesystemHost:
		return !paths.InsideAny([]string{"/tmp", "/var/tmp", "/run"}, p)
	}
	return p == "/" || paths.InsideAny(systemDirs[:], p) || paths.Inside("/var", p) && curated.Shows(p)
}

// OmittedSetting reports whether a path of the host beneath the table is a setting that the minimal
// view omits.
func OmittedSetting(spec *shared.Spec, p string) bool {
	cover, _ := shared.Cover(spec.Table, p)
	return cover == nil && spec.Filesystem == shared.FilesystemMinimal && paths.Inside("/etc", p) && !curated.Shows(p)
}

// systemDirs are the directories of the operating system, and of the kernel.
var systemDirs = [...]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/proc", "/dev", "/sys",
}

// home is the private home directory of commands; may be empty.
func (v *View) home() string { return Home(v.in.Home) }

// Home returns the path of the private home for a user's home directory: the same path, unless a part of
// the operating system is in it, as with HOME=/, or around it, as with some service accounts.
func Home(home string) string {
	if home == "" || !hasSystem(home) {
		return home
	}
	return "/run/home" // nothing of the host shows in /run, so a directory can be made there also over the host's tree
}

// hasSystem reports whether a home directory contains, or is in, a part of the operating system.
func hasSystem(home string) bool {
	return slices.ContainsFunc(systemDirs[:], func(dir string) bool { return paths.Inside(home, dir) || paths.Inside(dir, home) })
}

// Trees are the host's files and directories to search: those that the table shows, none within another,
// without toolchains. Those have programs and packages that anybody can download, by the hundred
// thousand.
func (v *View) Trees() []string {
	var all []string
	for _, e := range v.entries {
		if e.Access.Shows() && !strings.HasPrefix(e.Why, OriginToolchains) {
			all = append(all, e.Source)
		}
	}
	return paths.Outermost(all)
}

// Visible reports whether a path of the host shows inside, by an entry or in the host's tree.
func (v *View) Visible(host string) bool {
	return v.shown(host) || v.inView(host)
}

// Readable reports whether an entry shows a path of the host that no other entry covers.
func (v *View) Readable(host string) bool { return len(v.pathsInside(host)) > 0 }

// WritableAt reports whether a writable entry shows a path of the host.
func (v *View) WritableAt(host string) bool { return v.writer(host) != nil }

func (v *View) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(v.Notes, note) {
		v.Notes = append(v.Notes, note)
	}
}

// claim adds a note that is true only while an engine enforces the table.
func (v *View) claim(format string, args ...any) {
	v.claims = append(v.claims, fmt.Sprintf(format, args...))
	v.note(format, args...)
}
