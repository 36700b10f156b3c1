package view

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// MaxPaths is how many paths are hidden from one command, how many are protected, and how many are held.
// Each costs one or two mounts of some 50 microseconds.
const MaxPaths = 2000

// tooMany refuses a definition that needs more than MaxPaths of one kind.
func tooMany(paths []string, be, attribute, hint string) error {
	if len(paths) <= MaxPaths {
		return nil
	}
	dir, n := hostpath.MostIn(paths)
	return invalidf(attribute, hint, "%d paths %s, more than %d; %d of them lie in %s", len(paths), be, MaxPaths, n, hostpath.Quote(dir))
}

// SearchResult is the result of a search through what is shown.
type SearchResult struct {
	// Trees are finds of View.Deny, sensitive names, sockets, repositories and MayBeInstruction in View.Trees;
	// of Deny in what no entry shows; and of sensitive names and sockets in the operating system's
	// view.
	Trees     []scan.Found
	Protected []scan.Found // of View.Protect, then of View.HardLinks
	// Sockets are socket files from the kernel's list: of the whole host if that is shown.
	Sockets []string
}

// Restrict adds what is protected and what is hidden in all that the table shows.
func (v *View) Restrict(found *SearchResult) error {
	if err := cmp.Or(v.refuseSessions(), v.refuseControl(), v.refuseUnlisted()); err != nil {
		return err
	}
	for _, e := range v.entries {
		if ofBind(e) && e.Source != "" && cover(v.Deny, e.Source) {
			return invalidf(e.Why, "leave one of them out, or exempt it in deny_paths by an element that begins with !", "%q is hidden by deny_paths", e.Source)
		}
	}
	for i, r := range [...][]scan.Found{found.Trees, found.Protected} {
		attribute := [...]string{"deny_paths", "protect_paths"}[i]
		if i := slices.IndexFunc(r, func(f scan.Found) bool { return f.Reason == scan.Leads }); i >= 0 {
			return invalidf(attribute, "begin it with **/, or write the paths without wildcards, also the one that the link leads to; or remove the link", "an element with wildcards could match behind the symlink %q", r[i].Path)
		}
	}
	v.hideSessions()
	v.hideParents()
	linked, err := v.protect(append(v.protections, v.located(v.ruleProtections(found))...))
	if err != nil {
		return err
	}
	if err := v.hide(found); err != nil {
		return err
	}
	if err := v.checkLinks(linked); err != nil {
		return err
	}
	return v.checkHolds()
}

// A protection is a path of the host that commands must not write, or not see.
type protection struct {
	path string // as spelled
	why  string
	hold *Hold // the stub, without its path; nil means none
	// mustHold says that nothing runs if commands can replace a symlink on the way, on which no mount
	// can lie. Otherwise a note reports that only the target is protected, or not even that.
	mustHold bool
	// repository is the top of the repository whose git obeys it; may be empty.
	repository string
	// followsLinks says that the reader of this directory follows the symlinks in it.
	followsLinks bool
	// hostOwned says that the host would obey or run what a command put there.
	hostOwned bool

	way Way // found by located
}

// at returns the same protection of another path.
func (p protection) at(path string, hold *Hold) *protection {
	p.path, p.hold = path, hold
	return &p
}

// ruleProtections are the protections of protect_paths, and of the names that HardLinkRules found.
func (v *View) ruleProtections(found *SearchResult) (list []*protection) {
	for i := range v.Protect {
		rule := &v.Protect[i]
		if rule.Literal == "" || rule.way.Err != nil || rule.way.Kind == Absent && !v.Creatable(rule.Literal) {
			continue
		}
		list = append(list, &protection{path: rule.Literal, why: rule.Why, hold: &Hold{}, followsLinks: true})
	}
	rules := slices.Concat(v.Protect, v.HardLinks)
	for _, f := range found.Protected {
		if f.Reason == scan.Matched || f.Reason == scan.HardLink {
			list = append(list, &protection{path: f.Path, why: rules[f.Pattern].Why, hold: &Hold{}, followsLinks: true})
		}
	}
	return list
}

// protect makes these paths, or their targets, read-only wherever a writable entry shows them. It
// returns, for checkLinks, the protections that lead through links, and those of git.
func (v *View) protect(protections []*protection) (linked []*protection, err error) {
	var list []*protection
	for _, p := range protections {
		if len(p.way.Links)+len(p.way.DotDots) > 0 || p.repository != "" {
			linked = append(linked, p)
		}
		if p.way.Err != nil || v.unprotectable(p) {
			continue // the caller cannot get there, except through another link
		}
		list = append(list, v.chooseHold(p))
	}
	return linked, v.protectPaths(list)
}

// protectPaths protects each path once, and a directory before the paths in it.
func (v *View) protectPaths(list []*protection) error {
	slices.SortStableFunc(list, func(a, b *protection) int { return paths.Compare(a.way.End, b.way.End) })
	distinct := list[:0]
	var ends []string
	for _, p := range list {
		n := len(distinct) - 1
		if n < 0 || distinct[n].way.End != p.way.End {
			distinct, ends = append(distinct, p), append(ends, p.way.End)
			continue
		}
		// Of two protections for one path, the one with a hold counts: an existing file may be
		// another command's stub, and gone soon.
		if distinct[n].hold == nil && p.hold != nil {
			distinct[n] = p
		}
	}
	if err := tooMany(ends, "would have to be protected", "protect_paths", "remove what is not needed there, protect or hide a directory as a whole, or say read_only = true"); err != nil {
		return err
	}
	wanted := v.writableEntries()
	for _, p := range distinct {
		if err := v.protectPath(p, wanted); err != nil {
			return err
		}
	}
	return nil
}

// writableEntries are the writable entries, without git directories that ShowGit added.
func (v *View) writableEntries() (list []shared.Entry) {
	for _, e := range v.entries {
		if e.Access == shared.ReadWrite && e.Why != originGit {
			list = append(list, e)
		}
	}
	return list
}

// protectPath protects one path; wanted are the writable entries.
func (v *View) protectPath(p *protection, wanted []shared.Entry) error {
	host := p.way.End
	if dir := v.facts.Unsearchable(host); dir != "" && v.writer(dir) != nil && v.beneath(dir) {
		// Nothing can be mounted there. It is not necessary: the directory is hidden, so commands
		// can neither write nor rename its contents.
		v.hideAt(host, protected+p.why, nil)
		return nil
	}
	for _, e := range wanted {
		if paths.Inside(host, e.Source) {
			return invalidf(e.Why, "say read_only = true, or leave it out", "%q is never writable inside (%s%s)", e.Source, protected, p.why)
		}
	}
	for _, at := range v.pathsInside(host) {
		if e, _ := v.cover(at); e.Access != shared.ReadWrite || e.Path == at {
			continue // something else is there, or a git directory with its own protections
		}
		missing := shared.MissingRefuse
		if p.hold != nil {
			missing = shared.MissingHold
			v.hold(host, p.hold, false)
			// As many tools do, make git ignore the stub: git clean and git stash -u then leave it alone. Git
			// itself passes over its own, such as .git and remotes, only if they are empty.
			if !p.hold.File && p.way.Kind != File && v.inWorkTree(host) && !v.isGits(p) {
				v.hold(path.Join(host, ".gitignore"), &Hold{File: true, Content: "*\n", InStub: true}, false)
			}
		} else if p.way.Kind == Absent {
			continue
		}
		v.put(shared.Entry{Path: at, Source: host, Access: shared.ReadOnly, Missing: missing, Why: protected + p.why})
		if p.hostOwned {
			v.hostPaths = append(v.hostPaths, at)
		}
	}
	return nil
}

// isGits reports whether a path is a .git, or is in a git directory.
func (v *View) isGits(p *protection) bool {
	return path.Base(p.way.End) == ".git" || p.repository != "" && !v.Absent(path.Join(path.Dir(p.way.End), "HEAD"))
}

// unprotectable reports whether protection of a path's target would protect what commands must
// write: the workspace, or, for a link that a command may have made, any other writable entry.
func (v *View) unprotectable(p *protection) bool {
	switch {
	case len(p.way.Links) == 0 && p.repository == "":
		return false
	case v.holdsRoot(p.way.End):
		return true
	}
	return len(p.way.Links) > 0 && !p.mustHold && slices.ContainsFunc(v.writableEntries(), func(e shared.Entry) bool { return paths.Inside(p.way.End, e.Source) })
}

// holdsRoot reports whether a path contains a root of the workspace: its protection would protect all.
func (v *View) holdsRoot(p string) bool {
	return slices.ContainsFunc(v.in.Roots, func(r workspace.RootDir) bool { return paths.Inside(p, r.Path) })
}

// LeaveUnprotected removes the protections that an engine without mount.nested cannot enforce, and
// returns them. It also removes their stubs: those would protect nothing, and a command could fill
// them. It fails if the host would obey or run one of these paths: the next command would have no
// sandbox.
func (v *View) LeaveUnprotected(table []shared.Entry) (left []shared.Entry, err error) {
	v.Holds = slices.DeleteFunc(v.Holds, func(h Hold) bool { return !v.held[h.Path] })
	v.Notes = slices.DeleteFunc(v.Notes, func(note string) bool { return slices.Contains(v.claims, note) })
	for i := range table {
		e := &table[i]
		if e.Access != shared.ReadOnly {
			continue
		}
		if slices.Contains(v.hostPaths, e.Path) {
			return nil, invalidf(v.writer(e.Source).Why, "keep it where no command can write, say read_only = true, or use an engine that protects it",
				"commands could write %q, %s, which this engine cannot protect (%s)", e.Source, strings.TrimPrefix(e.Why, protected), shared.FeatureNested)
		}
		if e.Missing == shared.MissingHold {
			e.Missing = shared.MissingIgnore
		}
		if strings.HasPrefix(e.Why, protected) {
			left = append(left, *e)
		}
	}
	return left, nil
}
