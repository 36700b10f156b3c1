package view

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// MaxHidden is how many paths are hidden from one command, and maxProtected how
// many are protected. Each costs a mount or two, some 50 microseconds.
const (
	MaxHidden    = 2000
	maxProtected = 2000
)

// Found is what a search through what is shown has found.
type Found struct {
	Deny, Protect []Rule
	Linked        []Rule // of View.Linked
	// Trees is what lies in View.Trees - of Deny, with sensitive names, sockets, repositories and what
	// ActsOnHost -, of Deny in what the entries do not show, and of sensitive names and sockets in the
	// operating system's view.
	Trees     *scan.Result
	Protected *scan.Result // of Protect, then of Linked
	// Sockets are socket files that the kernel lists: of the whole host where that is shown.
	Sockets []string
}

// A protection is a path of the host that commands must not write, or not see.
type protection struct {
	path string // as it is spelled
	why  string
	hold *Hold // what holds its place, without the path; nil: nothing does
	link linkPolicy
	// repository is the top of the one whose git obeys it; "" is none's.
	repository string
	// keep are directories in which a symlink's own directory is protected, too.
	keep []string
	// whole says that it is protected where an entry shows it by itself, too.
	whole bool
	// leads says that what reads it as a directory follows the symlinks in it.
	leads bool
	// own says that the host would obey or run what a command put there.
	own bool
	// ignored says that what holds its place tells git to ignore it.
	ignored bool
}

// linkPolicy says what becomes of a protection that leads through a symlink which
// commands can replace. No mount can lie on a symlink.
type linkPolicy uint8

const (
	linkTold    linkPolicy = iota // what it leads to is protected where that can be, and a note says the rest
	linkRefused                   // nothing runs
)

// Restrict adds what is protected and what is hidden, of all that the table shows.
func (v *View) Restrict(found *Found) error {
	granted, err := v.allGranted()
	if err != nil {
		return err
	}
	if err := v.refuseControl(granted); err != nil {
		return err
	}
	for _, e := range v.entries {
		if strings.HasPrefix(e.Why, "bind_paths") && e.Source != "" && cover(found.Deny, e.Source) {
			return invalidf(e.Why, "leave one of them out, or exempt it in deny_paths by an element that begins with !", "%q is hidden by deny_paths", e.Source)
		}
	}
	v.hideSessions()
	v.hideParents()
	protections := append(v.hostProtections(), v.gitProtections(found)...)
	protections = append(protections, v.defaultProtections(found.Trees)...)
	more, err := v.ruleProtections(found)
	if err != nil {
		return err
	}
	protections = append(protections, more...)
	linked, err := v.protect(v.withLinksIn(protections))
	if err != nil {
		return err
	}
	if err := v.hide(found, granted); err != nil {
		return err
	}
	if err := v.judge(linked); err != nil {
		return err
	}
	if err := v.checkHolds(); err != nil {
		return err
	}
	v.Deny = unique(append(patterns(found.Deny), v.Deny...))
	v.Protect = unique(append(patterns(found.Protect), v.Protect...))
	if v.in.HideSensitive {
		v.Deny = append(v.Deny, sensitivePatterns[:]...)
	}
	v.remarkSensitive(found)
	return nil
}

// hostProtections are what the host itself runs and obeys.
func (v *View) hostProtections() (list []protection) {
	for _, o := range v.in.Own {
		way := v.facts.Follow(o.Path)
		writable := way.Err == nil && v.writer(way.End) != nil
		// Also where an entry shows no more than a part of one.
		inPart := writable || way.Err == nil && v.writesIn(way.End)
		p := protection{path: way.End, why: o.What, own: o.Kind != OwnVetted}
		switch o.Kind {
		case OwnConfig, OwnVetted:
			p.path, p.link = o.Path, linkRefused
		case OwnProgram:
			// Whatever is not there yet cannot be mounted on, and is not run before it
			// has been checked.
			if p.path = o.Path; v.writer(o.Path) == nil || way.Kind == Absent {
				continue
			}
		case OwnRecord:
			if !writable {
				continue
			}
		case OwnEngine, OwnState:
			// That no engine is started which lies in the workspace is not enough: for the
			// next run, this may be none.
			if !inPart || o.File || o.Kind == OwnState && way.End == "/" {
				continue
			}
			p.hold = &Hold{}
			v.StateInReach = v.StateInReach || o.Kind == OwnState
		case OwnPlace, OwnCommand:
			if way.Err == nil && (o.Kind == OwnPlace || inPart) {
				list = append(list, v.placeProtections(&o, way.End)...)
			}
			continue
		default:
			continue
		}
		list = append(list, p)
	}
	return list
}

func (v *View) placeProtections(o *Own, dir string) (list []protection) {
	for _, name := range o.Names {
		p := path.Join(dir, name)
		way := v.facts.Follow(p)
		if by := v.writer(way.End); way.Err == nil && by != nil && by.Source != way.End && (o.Kind == OwnPlace || strings.HasPrefix(by.Why, "bind_paths")) {
			list = append(list, protection{path: p, why: o.What, hold: &Hold{}, own: true})
		}
	}
	return list
}

// byDefault protects a name of DefaultProtected, and holds its place.
func byDefault(dir, name string) protection {
	return protection{path: path.Join(dir, name), why: "by default, " + name, hold: &Hold{}, leads: true}
}

// defaultProtections are what tools of the host take for instructions.
func (v *View) defaultProtections(trees *scan.Result) (list []protection) {
	for _, f := range trees.Found {
		if name := path.Base(f.Path); f.What == scan.Asked && !v.givenUp.has(name) && v.guarded(f.Path, trees) {
			list = append(list, protection{path: f.Path, why: "by default, " + name, leads: true})
		}
	}
	for _, e := range slices.Clone(v.entries) {
		chosen := e.Why == "workspace" || strings.HasPrefix(e.Why, "workspace.writable") || strings.HasPrefix(e.Why, "bind_paths")
		if e.Access == shared.ReadWrite && chosen && v.facts.Follow(e.Source).Kind == Directory {
			list = append(list, v.defaultsAtTop(e.Source)...)
		}
	}
	for _, home := range slices.Compact([]string{v.in.User.Home, v.in.User.CallerHome}) {
		if way := v.facts.Follow(home); home != "" && way.Err == nil && way.End != "/" {
			list = append(list, v.defaultsInHome(way.End)...)
		}
	}
	return list
}

// guarded reports whether what tools act on is protected where it lies: at the top of what
// commands write to, and of the repositories there what such a tool takes from their tops alone.
func (v *View) guarded(p string, trees *scan.Result) bool {
	dir := path.Dir(p)
	at := slices.Contains(v.Tops(), dir) || path.Base(p) == ".mcp.json" && slices.Contains(v.repositories(trees), dir)
	return at && v.Creatable(p)
}

// defaultsAtTop are those at the top of a directory that commands write to.
func (v *View) defaultsAtTop(dir string) (list []protection) {
	// In an empty directory a project is about to be made, by tools that want
	// it empty.
	if !v.facts.Empty(dir) {
		// To git, an empty directory is one to clean up, and that fails.
		ignored := v.repository(dir).Layout.CommonDir != ""
		for _, name := range actsUnasked {
			if !v.givenUp.has(name) {
				p := byDefault(dir, name)
				p.ignored = ignored
				list = append(list, p)
			}
		}
	}
	for _, name := range shellFiles {
		way := v.facts.Follow(path.Join(dir, name))
		if !v.givenUp.has(name) && (v.isHome(dir) || way.Kind != Absent || len(way.Links) > 0) {
			list = append(list, byDefault(dir, name))
		}
	}
	return list
}

// defaultsInHome are those of a home directory, unless somebody has bound them.
func (v *View) defaultsInHome(home string) (list []protection) {
	for _, name := range homeFiles {
		p := byDefault(home, name)
		bound := slices.ContainsFunc(v.entries, func(e shared.Entry) bool { return e.Access == shared.ReadWrite && paths.Inside(p.path, e.Source) })
		if v.writer(p.path) != nil && !bound && !v.givenUp.has(name) {
			list = append(list, p)
		}
	}
	return list
}

// isHome reports whether a directory is one that login shells start in.
func (v *View) isHome(dir string) bool {
	for _, home := range [...]string{v.in.User.Home, v.in.User.CallerHome} {
		if home != "" && (dir == home || dir == v.facts.Follow(home).End) {
			return true
		}
	}
	return false
}

// ruleProtections are those of protect_paths.
func (v *View) ruleProtections(found *Found) (list []protection, err error) {
	for i := range found.Protect {
		rule := &found.Protect[i]
		if rule.Literal == "" || rule.way.Err != nil || rule.way.Kind == Absent && !v.Creatable(rule.Literal) {
			continue
		}
		list = append(list, protection{path: rule.Literal, why: rule.Why(), hold: &Hold{}})
	}
	for _, f := range found.Protected.Found {
		if f.What == scan.Matched || f.What == scan.HardLink {
			why := ""
			if n := len(found.Protect); f.Pattern < n {
				why = found.Protect[f.Pattern].Why()
			} else {
				why = found.Linked[f.Pattern-n].Text + ", by another name"
			}
			list = append(list, protection{path: f.Path, why: why, hold: &Hold{}})
		}
	}
	return list, nil
}

func (v *View) protectPlaces(list []located) error {
	// What lies in another protected place comes after it, and needs no more. Of
	// two for one place the one that is held counts: what is there may be another
	// command's hold, and gone in a moment.
	held := func(p *located) int {
		if p.hold != nil {
			return 1
		}
		return 0
	}
	whole := map[string]bool{}
	for i := range list {
		whole[list[i].way.End] = whole[list[i].way.End] || list[i].whole
	}
	slices.SortStableFunc(list, func(a, b located) int {
		return cmp.Or(paths.Compare(a.way.End, b.way.End), held(&b)-held(&a))
	})
	list = slices.CompactFunc(list, func(a, b located) bool { return a.way.End == b.way.End })
	if len(list) > maxProtected {
		var all []string
		for _, p := range list {
			all = append(all, p.way.End)
		}
		dir, n := hostpath.MostIn(all)
		return invalidf("protect_paths", "remove what is not needed there, protect or hide a directory as a whole, or say read_only = true",
			"%d paths would have to be protected, more than %d; %d of them lie in %s", len(all), maxProtected, n, hostpath.Quote(dir))
	}
	wanted := v.wanted()
	for i := range list {
		list[i].whole = whole[list[i].way.End]
		if err := v.protectPlace(&list[i], wanted); err != nil {
			return err
		}
	}
	return nil
}

// wanted are the entries that somebody wants to be writable.
func (v *View) wanted() (list []shared.Entry) {
	for _, e := range v.entries {
		if e.Access == shared.ReadWrite && !strings.HasPrefix(e.Why, originGit) {
			list = append(list, e)
		}
	}
	return list
}

// protectPlace protects one, given what is wanted to be writable.
func (v *View) protectPlace(p *located, wanted []shared.Entry) error {
	host := p.way.End
	v.Protect = append(v.Protect, Quote(host))
	if dir := v.facts.Unsearchable(host); dir != "" && v.writer(dir) != nil && v.beneath(dir) {
		// Nothing can be mounted there, nor need be: the directory is hidden,
		// and what is hidden can be neither written nor renamed.
		v.hideAt(host, protected+p.why, nil)
		return nil
	}
	for _, e := range wanted {
		if paths.Inside(host, e.Source) {
			return invalidf(e.Why, "say read_only = true, or leave it out", "%q is never writable inside (%s%s)", e.Source, protected, p.why)
		}
	}
	for _, at := range v.places(host) {
		if e, _ := v.cover(at); e.Access != shared.ReadWrite || e.Path == at && !p.whole {
			continue // something else is there, or a git directory with protections of its own
		}
		missing := shared.MissingRefuse
		if p.hold != nil {
			missing = shared.MissingHold
			v.hold(host, p.hold, false)
			if p.ignored {
				v.holdIgnored(p)
			}
		} else if p.way.Kind == Absent {
			continue
		}
		v.put(shared.Entry{Path: at, Source: host, Access: shared.ReadOnly, Missing: missing, Why: protected + p.why})
		if p.own {
			v.own = append(v.own, at)
		}
	}
	return nil
}

// holdsRoot reports whether the workspace lies in a path: to protect that would
// protect all.
func (v *View) holdsRoot(p string) bool {
	return slices.ContainsFunc(v.in.Roots, func(r workspace.RootDir) bool { return paths.Inside(p, r.Path) })
}

func (v *View) hold(p string, h *Hold, hides bool) {
	one := *h
	one.Path = p
	if v.held == nil {
		v.held = map[string]bool{}
	}
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
	if len(missing) <= maxProtected {
		return nil
	}
	dir, n := hostpath.MostIn(slices.Collect(maps.Keys(missing)))
	return invalidf("protect_paths", "remove the symlinks, or the settings of git, that name them",
		"%d paths that are not there would have to be held, more than %d; %d of them lie in %s", len(missing), maxProtected, n, hostpath.Quote(dir))
}

// LeaveUnprotected gives up what by its Holds a table does not hide, for an engine without
// mount.nested, and gives what stays unprotected: in a directory that a command can write to a
// Hold would protect nothing, and be the command's to fill. It refuses where the host would obey
// or run what lies there: the next command would have no sandbox.
func (v *View) LeaveUnprotected(table []shared.Entry) (left []shared.Entry, err error) {
	v.Holds = slices.DeleteFunc(v.Holds, func(h Hold) bool { return !v.held[h.Path] })
	v.Notes = slices.DeleteFunc(v.Notes, func(note string) bool { return slices.Contains(v.claims, note) })
	for i := range table {
		e := &table[i]
		if e.Access != shared.ReadOnly {
			continue
		}
		if slices.Contains(v.own, e.Path) {
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

// Absent reports whether there was nothing at a path of the host when this view was made.
func (v *View) Absent(host string) bool { return v.facts.Follow(host).Kind == Absent }

// holdIgnored has what holds the place of a directory say to git, in the manner of
// many tools, that nothing is in it: git clean and git stash -u leave it alone. What
// is there can be another command's hold; a directory of somebody's is left as it is.
func (v *View) holdIgnored(p *located) {
	ignore := path.Join(p.way.End, ".gitignore")
	if p.way.Kind == Absent || v.facts.Follow(ignore).Kind == File {
		v.hold(ignore, &Hold{File: true, Content: "*\n"}, false)
	}
}

// unique gives a list without what it has had before.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		had := seen[s]
		seen[s] = true
		return had
	})
}

func (v *View) note(format string, args ...any) {
	if note := sprint(format, args...); !slices.Contains(v.Notes, note) {
		v.Notes = append(v.Notes, note)
	}
}

// claim is a note that is true while the table is held.
func (v *View) claim(format string, args ...any) {
	v.claims = append(v.claims, sprint(format, args...))
	v.note(format, args...)
}

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// Linked gives rules for files that are protected and have further names, and for directories
// with such files in them: by one of those that lies where commands can write, they could change
// them. Their text says what they are.
func (v *View) Linked(trees *scan.Result) (rules []Rule, err error) {
	if len(v.Writable()) == 0 {
		return nil, nil
	}
	add := func(p, what string) {
		way := v.facts.Follow(p)
		linked := way.Kind == File && way.Names > 1
		if way.Kind == Directory {
			links := v.facts.LinksIn(way.End)
			linked = links.Hard || !links.All
		}
		if way.Err != nil || !linked || slices.ContainsFunc(rules, func(r Rule) bool { return r.Literal == way.End }) {
			return
		}
		pattern, parseErr := glob.Parse(Quote(way.End))
		if parseErr != nil {
			err = invalidf("protect_paths", "remove its other names", "%q: %v", way.End, parseErr)
		}
		rules = append(rules, Rule{Text: what, Pattern: pattern, Literal: way.End})
	}
	isDir := func(p string) bool { return v.facts.Follow(p).Kind == Directory }
	for _, m := range v.hostProtections() {
		if !isDir(m.path) {
			add(m.path, m.why)
		}
	}
	for _, dir := range v.repositories(trees) {
		if v.gitWritable {
			break
		}
		r := v.repository(dir)
		for _, p := range r.Layout.Protected {
			// Git says itself which hooks have further names, and modules have the parts of their own.
			if name := path.Base(p); !isDir(p) || name == "remotes" || name == "branches" {
				add(p, "git "+name)
			}
		}
		for _, o := range r.Obeyed {
			if !isDir(o.Path) {
				add(o.Path, "git "+o.What)
			}
		}
	}
	for _, p := range v.withLinksIn(v.defaultProtections(trees)) {
		add(p.path, p.why)
	}
	return rules, err
}
