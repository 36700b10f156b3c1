package view

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
)

// OriginSocket is why socket files are hidden that no definition names.
const OriginSocket = "socket file, not in unix_sockets"

// hide hides all that must be hidden.
func (v *View) hide(found *SearchResult) error {
	for i := range v.Deny {
		v.hideLiteral(&v.Deny[i])
	}
	var deep, linked, sensitive []string
	v.entries = slices.Grow(v.entries, len(found.Trees))
	for _, f := range found.Trees {
		var err error
		switch byRule := f.Pattern >= 0; {
		case byRule && (f.Reason == scan.Matched || f.Reason == scan.HardLink):
			err = v.hideFound(&f, v.Deny[f.Pattern].Why)
		case f.Reason == scan.SensitiveName && !v.in.HideSensitive:
			sensitive = append(sensitive, f.Path)
		case f.Reason == scan.SensitiveName, f.Reason == scan.HardLink && v.in.HideSensitive:
			err = v.hideFound(&f, OriginSensitive)
		case (byRule || v.in.HideSensitive) && (f.Reason == scan.LinksUnknown || f.Reason == scan.Linked && v.wholeHost):
			linked = append(linked, f.Path)
		case f.Reason == scan.Socket && !slices.Contains(v.grantedSockets, f.Path):
			v.hideAt(f.Path, OriginSocket, nil)
		case f.Reason == scan.TooDeep:
			deep = append(deep, f.Path)
			v.hideAt(f.Path, "a directory too deep to be searched", nil)
		case f.Reason == scan.Unsearched && f.UID == v.in.UID:
			// The owner of a directory can make it readable again.
			v.hideAt(f.Path, "a directory that cannot be searched", nil)
		}
		if err != nil {
			return err
		}
	}
	if err := v.hideState(); err != nil {
		return err
	}
	if len(deep) > 0 {
		v.note("directories more than %d levels deep are hidden, because they are not searched: %s", scan.MaxDepth, hostpath.QuoteList(deep))
	}
	if v.wholeHost {
		v.hideOfHost(found)
	}
	if len(linked) > 0 {
		v.note("these are hidden; other hard links to them may exist, which were not found: %s", hostpath.QuoteList(linked))
	}
	if len(sensitive) > 0 {
		v.Remarks = append(v.Remarks, "these files look as if they held secrets, and can be read; deny_paths hides them: "+hostpath.QuoteList(sensitive))
	}
	var hidden []string
	for _, e := range v.entries {
		if e.Access == shared.Hidden && !v.hiddenAround[e.Path] {
			hidden = append(hidden, e.Path)
		}
	}
	return tooMany(hidden, "would have to be hidden", "deny_paths", "remove what is not needed there, or hide a directory as a whole by its name in deny_paths")
}

// hideLiteral hides the single path that a rule names.
func (v *View) hideLiteral(rule *Rule) {
	if rule.Literal == "" || rule.way.Err != nil {
		return
	}
	var hold *Hold
	// An engine may not enforce the protection of the path or of the directory around it.
	unprotected := v.in.Isolation == IsolationBestEffort && v.writer(rule.Literal) != nil
	if (unprotected || v.Creatable(rule.Literal)) && v.facts.Unsearchable(rule.Literal) == "" {
		// An existing file can be another command's stub, and may be gone soon.
		hold = &Hold{}
	} else if rule.way.Kind == Absent {
		return
	}
	v.hideAt(rule.Literal, rule.Why, hold)
}

// hideAt hides a path of the host wherever it shows.
func (v *View) hideAt(host, why string, hold *Hold) {
	above := v.facts.Unsearchable(host)
	if above != "" && v.beneath(above) {
		host, hold, above = above, nil, v.facts.Unsearchable(above)
	}
	at := v.pathsInside(host)
	missing := shared.MissingIgnore
	if len(at) == 0 && !v.shown(host) {
		// No entry shows it, but the operating system's view may.
		if above != "" && v.wholeHost {
			if e, _ := v.cover(above); e == nil {
				v.hideExceptEntries(above, why, shared.MissingRefuse)
			}
			return
		}
		at = []string{host}
	}
	if hold != nil {
		missing = shared.MissingHold
		v.hold(host, hold, true)
	}
	for _, p := range at {
		if i, taken := v.byPath[p]; taken && v.entries[i].Access == shared.Hidden && !v.hiddenAround[p] {
			continue
		}
		delete(v.hiddenAround, p)
		v.put(shared.Entry{Path: p, Access: shared.Hidden, Missing: missing, Why: why})
	}
}

// hideFound hides a found file, or a symlink's target.
func (v *View) hideFound(f *scan.Found, why string) error {
	if !f.Symlink {
		if f.Reason == scan.HardLink {
			why += fmt.Sprintf(", a hard link of %q", f.LinkedName)
		}
		v.hideAt(f.Path, why, nil)
		return nil
	}
	way := v.facts.Follow(f.Path)
	if way.Kind == Absent {
		return nil // it leads nowhere
	}
	attribute, hint := "deny_paths", "name what in it is to be hidden"
	if strings.HasPrefix(why, OriginSensitive) {
		attribute, hint = "approvals.mode", "remove the link"
	}
	if slices.ContainsFunc(v.entries, func(e shared.Entry) bool { return e.Why == "workspace" && paths.Inside(way.End, e.Source) }) {
		return invalidf(attribute, hint, "%q is a symlink to %q, and to hide that (%s) would hide the workspace itself", f.Path, way.End, why)
	}
	byItself := v.in.HideSensitive && Sensitive(path.Base(way.End)) || cover(v.Deny, way.End)
	// A command that replaces the link would reveal its target to the next one.
	if link := v.replaceableLink(&way); link != "" && len(v.pathsInside(way.End)) > 0 && !byItself {
		hint = fmt.Sprintf("add %q to deny_paths", strings.TrimPrefix(way.End, v.root()+"/"))
		return invalidf(attribute, hint, "%q is a symlink to %q (%s): a command that replaces it would leave %q open to the next one", f.Path, way.End, why, way.End)
	}
	v.hideAt(way.End, why, nil)
	return nil
}

// hideState hides the host's state. A process that can open a file can lock it forever, and every
// approval, every line of the log and every other command of this user needs these locks. It could
// also read approvals, trust decisions, and what other commands got.
func (v *View) hideState() error {
	for _, o := range v.in.HostPaths {
		if o.Kind != HostState {
			continue
		}
		way, why := v.facts.Follow(o.Path), fmt.Sprintf("%s (%s)", o.Attribute, o.Description)
		if way.Err != nil || way.End == "/" || o.File && way.Kind != Absent && way.Kind != File {
			continue // appending to a log that is not a file fails later
		}
		switch there := way.Kind != Absent; {
		case !o.File && v.writer(way.End) != nil:
			v.hideAt(way.End, why, &Hold{})
		case !there && v.Creatable(way.End):
			return invalidf(o.Attribute, "keep it elsewhere", "%s is in a writable directory, and cannot be made there", hostpath.Quote(way.End))
		case there && (v.shown(way.End) || v.inHostView(way.End)):
			v.hideAt(way.End, why, nil)
		}
		// Hide it also in a bind of a part of it.
		for _, e := range slices.Clone(v.entries) {
			if e.Access.Shows() && e.Source != way.End && paths.Inside(way.End, e.Source) {
				v.hideAt(e.Source, why, nil)
			}
		}
	}
	return nil
}

// hideOfHost hides parts of the whole host's view.
func (v *View) hideOfHost(found *SearchResult) {
	if v.in.HideSensitive {
		v.note(`filesystem = "host" shows more than can be searched for each command: .env and .env.* are hidden in the workspace, in what is bound, in /opt and in /srv, and nowhere else`)
	}
	hide := func(p, why string, kind Kind) {
		if way := v.facts.Follow(p); way.Kind == kind && v.inHostView(way.End) && !slices.Contains(v.grantedSockets, way.End) {
			v.hideAt(way.End, why, nil)
		}
	}
	for _, s := range v.in.Control {
		if way := v.facts.Follow(s.Path); way.Kind == Socket && !v.shown(way.End) {
			v.hideAt(way.End, "control socket", nil)
		}
	}
	for _, p := range found.Sockets {
		hide(p, OriginSocket, Socket)
	}
	for _, p := range [...]string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		hide(p, "filesystem: the identity of this machine", File)
	}
	if v.in.Unmapped {
		// If root is not mapped, root's files belong to nobody, and ssh refuses to start with "Bad
		// owner or permissions" for any file that its configuration includes.
		hide("/etc/ssh/ssh_config.d", "filesystem: ssh would not start with files of an owner who is unknown inside", Directory)
	}
	for _, home := range v.homes {
		v.hideInHostView(home, "filesystem: a home directory")
	}
}

// hideInHostView hides a directory if only the host's tree shows it. Where nothing can be mounted on it,
// it hides the directory above that prevents this.
func (v *View) hideInHostView(dir, why string) {
	if v.inHostView(dir) {
		v.hideExceptEntries(cmp.Or(v.facts.Unsearchable(dir), dir), why, shared.MissingRefuse)
	}
}

// hideSessions covers the directories of sessions wherever an entry shows them. A process that
// reaches a session's sockets and files could run commands in it, with a network for example, or
// choose what others find there. A session's own directories are shown inside.
func (v *View) hideSessions() {
	const why = protected + "sessions"
	for _, base := range v.in.SessionBases {
		for _, at := range v.pathsInside(base) {
			v.hideExceptEntries(at, why, shared.MissingRefuse)
		}
		v.hideInHostView(base, why)
	}
}

// hideParents hides the directory above each writable root if it would be part of the private home
// or of /tmp: files that a command puts beside the workspace, such as a worktree, would go with the
// command, while the repository still lists them. It does not hide the home itself and /tmp.
func (v *View) hideParents() {
	for _, root := range slices.Clone(v.entries) {
		if root.Access != shared.ReadWrite || !isRoot(&root) {
			continue
		}
		parent := path.Dir(root.Path)
		private := slices.ContainsFunc([]string{v.home(), "/tmp", "/var/tmp"}, func(dir string) bool {
			return dir != "" && dir != parent && paths.Inside(dir, parent)
		})
		by, _ := v.cover(parent)
		if private && parent != v.home() && (by == nil || by.Why == OriginHome || by.Why == OriginTemp && by.Path == "/tmp") {
			v.hideExceptEntries(parent, OriginParent, shared.MissingIgnore)
		}
	}
}

// refuseSessions refuses to show the directories of sessions.
func (v *View) refuseSessions() error {
	for _, base := range v.in.SessionBases {
		for _, e := range v.entries {
			if e.Access.Shows() && e.Why != OriginTemp && e.Why != OriginHome && paths.Inside(base, e.Source) {
				return invalidf(e.Why, "choose another directory", "%q lies in %q, which holds the sessions of sandboxes", e.Source, base)
			}
		}
	}
	return nil
}

// refuseControl refuses entries that show a control socket, or a directory above one. A read-only
// mount does not prevent connections.
func (v *View) refuseControl() error {
	for _, s := range v.in.Control {
		dir := strings.HasSuffix(s.Path, "/")
		way := v.facts.Follow(s.Path)
		led := way.End
		if way.Err != nil {
			led = path.Clean(s.Path)
		}
		there := dir && way.Kind != Absent || way.Kind == Socket
		for _, e := range v.entries {
			if !e.Access.Shows() {
				continue
			}
			at := e.Source == led || dir && paths.Inside(led, e.Source)
			// In the workspace itself, the search finds it and hides it.
			above := paths.Inside(e.Source, led) && (s.Always || there && e.Why != "workspace")
			if !at && !above || s.OnRequest && at && slices.Contains(v.grantedSockets, e.Source) {
				continue
			}
			hint := "bind only what is needed of it"
			if s.OnRequest {
				hint = fmt.Sprintf("to permit it, name the socket in unix_sockets: %q", led)
			}
			return invalidf(e.Why, hint, "%q shows the control socket %q, which gives %s", e.Source, led, s.Gives)
		}
	}
	return nil
}
