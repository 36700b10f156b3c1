package denial

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// absolute returns the absolute path for a command's word in a directory; "" if the directory is
// unknown.
func (f *Failure) absolute(dir, word string) string {
	switch {
	case strings.HasPrefix(word, "~/") && f.Spec.Home != "":
		return path.Join(f.Spec.Home, word[2:])
	case path.IsAbs(word):
		return path.Clean(word)
	case dir == "":
		return ""
	}
	return path.Join(dir, word)
}

// unseenPath is about a path that a command did not find.
func (f *Failure) unseenPath(p string) Denial {
	entry, host := shared.Cover(f.Spec.Table, p)
	if hides(entry) {
		return f.hidden(p, entry)
	}
	inside := view.Shows(f.Spec, p)
	if inside != p {
		way := f.Machine.Follow(p)
		if way.Err != nil || way.Kind == view.Absent {
			return Denial{}
		}
		if inside != "" {
			return Denial{Path: p, Operation: "read", Reason: fmt.Sprintf("%s of this machine is %s in sandbox %q", hostpath.Quote(p), hostpath.Quote(inside), f.Sandbox)}
		}
		return f.notShown(p, way)
	}
	// A visible symlink can lead to a path that is not shown.
	if host == "" {
		host = p
	}
	way := f.Machine.Follow(host)
	if entry == nil && len(way.Links) == 0 && way.Err == nil && way.Kind != view.Absent {
		isDevice := paths.Inside("/dev", p) && p != "/dev" && !view.HasDevice(f.Spec, p) && f.Spec.Filesystem == shared.FilesystemMinimal
		if isDevice || view.OmittedSetting(f.Spec, p) { // people must judge what it gives
			d := f.notShown(p, way)
			if d.Value = ""; isDevice && d.Attribute != "" {
				d.Attribute = "devices"
			}
			return d
		}
	}
	if len(way.Links) == 0 || way.Err != nil || way.Kind == view.Absent || view.Shows(f.Spec, way.End) != "" && !view.OmittedSetting(f.Spec, way.End) {
		return Denial{}
	}
	if slices.ContainsFunc(way.Links, func(link string) bool { return paths.Inside("/proc", link) }) {
		return Denial{} // such as /dev/fd/3: here it leads to a file of this process
	}
	if entry, _ := shared.Cover(f.Spec.Table, way.End); hides(entry) {
		return f.hidden(way.End, entry)
	}
	return f.notShown(way.End, way)
}

// hides reports whether an entry, which may be nil, hides its path because somebody said so.
func hides(e *shared.Entry) bool {
	return e != nil && e.Access == shared.Hidden && e.Why != view.OriginParent
}

func (f *Failure) notShown(p string, way view.Way) Denial {
	d := Denial{Path: p, Operation: "read", Attribute: "bind_paths", Reason: fmt.Sprintf("%s of this machine is not shown in sandbox %q", hostpath.Quote(p), f.Sandbox)}
	for _, place := range [...]string{p, way.End} {
		if why := f.Machine.WhyNotProposed(place); why != "" {
			d.Attribute, d.Reason = "", d.Reason+": "+why
			return d
		}
	}
	switch {
	case way.Kind == view.Socket: // nobody knows what it gives
		d.Attribute, d.Operation = "unix_sockets", "connect"
	case !looksLikeLock(p):
		d.Value, d.Element = text(p), true
	}
	return d
}

// looksLikeLock reports whether a path looks like the lock of a system service.
func looksLikeLock(p string) bool {
	return strings.Contains(path.Base(p), "lock") && (strings.HasPrefix(p, "/var/") || strings.HasPrefix(p, "/run/"))
}

func (f *Failure) hidden(p string, entry *shared.Entry) Denial {
	return Denial{Path: p, Operation: "read", Attribute: attributeOf(entry.Why),
		Reason: fmt.Sprintf("%s is hidden in sandbox %q (%s)", hostpath.Quote(p), f.Sandbox, entry.Why)}
}

// notWritten is about a path that a command could not write, rename or remove.
func (f *Failure) notWritten(p string) Denial {
	entry, _ := shared.Cover(f.Spec.Table, p)
	if entry == nil {
		if view.WritableInside(f.Spec, p) {
			return Denial{}
		}
		if d := f.unseenPath(p); d.Reason != "" {
			return d
		}
		return Denial{Path: p, Operation: "write", Reason: fmt.Sprintf("%s is read-only in sandbox %q: commands write the workspace, their home and /tmp", hostpath.Quote(p), f.Sandbox)}
	}
	d := Denial{Path: p, Operation: "write", Attribute: attributeOf(entry.Why)}
	switch entry.Access {
	case shared.Hidden:
		if entry.Why == view.OriginParent {
			if view.WritableInside(f.Spec, p) {
				return Denial{} // in the home
			}
			d.Reason = fmt.Sprintf("%s lies beside what sandbox %q shows of that directory: commands write the workspace, their home and /tmp", hostpath.Quote(p), f.Sandbox)
			return d
		}
		return f.hidden(p, entry)
	case shared.ReadOnly:
		d.Reason = fmt.Sprintf("%s is read-only in sandbox %q (%s)", hostpath.Quote(p), f.Sandbox, entry.Why)
		binds := strings.HasPrefix(d.Attribute, "bind_paths[")
		switch d.Attribute, d.Change = f.concession(entry); {
		case d.Attribute == "read_only":
			d.Value = "false"
		case binds:
			at := ""
			if entry.Path != entry.Source {
				at = "container = " + text(entry.Path) + ", "
			}
			d.Value = fmt.Sprintf("{ host = %s, %sread_only = false }", text(entry.Source), at)
		case d.Attribute == "" && strings.HasPrefix(entry.Why, "protected: "):
			d.Reason += ": change it outside of the sandbox"
		}
		return d
	}
	// The path is writable, but must stay so that nothing in it moves elsewhere.
	for _, pin := range shared.Pins(f.Spec.Table) {
		if pin.Path == p {
			d.Attribute, d.Change = f.concession(&pin)
			for _, e := range f.Spec.Table { // one change must free all that lies in it
				if e.Path == p || !paths.Inside(p, e.Path) || e.Access != shared.Hidden && e.Access != shared.ReadOnly {
					continue
				}
				if _, change := f.concession(&e); change != d.Change {
					d.Change = ""
				}
			}
			d.Reason = fmt.Sprintf("%s cannot be renamed or removed in sandbox %q because of a path in it (%s)", hostpath.Quote(p), f.Sandbox, pin.Why)
			return d
		}
	}
	return Denial{}
}

// concession returns the attribute that protects an entry, and the change of the definition that
// gives the protection up; "" where no hint may propose one. It never proposes to open what shells
// and programs obey in a home.
func (f *Failure) concession(e *shared.Entry) (attribute, change string) {
	attribute = attributeOf(e.Why)
	if name, ok := strings.CutPrefix(e.Why, "protected: by default, "); ok {
		if _, known := view.Instruction(name); known == "" || f.Machine.WhyNotProposed(e.Source) != "" {
			return "", ""
		}
		return attribute, "add " + text(name) + " to protect_paths_except"
	}
	// Other files that git obeys may be protected for another reason as well.
	name, ok := strings.CutPrefix(e.Why, "protected: git ")
	if first, _, _ := strings.Cut(name, "/"); ok && slices.Contains([]string{"hooks", "config", "config.worktree", "commondir", "info", "objects", "modules", "remotes", "branches"}, first) {
		return attribute, `git = "full"`
	}
	return attribute, ""
}

// attributeOf returns the attribute in an entry's reason; empty for none.
func attributeOf(why string) string {
	if why == "workspace" {
		return "read_only"
	}
	for _, known := range [...]struct{ prefix, attribute string }{
		{"protected: git", "git"}, {"git: ", "git"}, {view.OriginSocket, "unix_sockets"}, {view.OriginSensitive, "approvals.mode"},
		{"protected: protect_paths", "protect_paths"}, {"protected: by default", "protect_paths_except"},
	} {
		if strings.HasPrefix(why, known.prefix) {
			return known.attribute
		}
	}
	name, _, _ := strings.Cut(why, " ")
	name = strings.TrimRight(name, ":,")
	for _, known := range [...]string{"bind_paths", "deny_paths", "protect_paths", "unix_sockets", "devices", "workspace."} {
		if strings.HasPrefix(name, known) {
			return name
		}
	}
	return ""
}

// uncreatable is about a path that a command could not make because its directory is missing, and
// that could be made outside.
func (f *Failure) uncreatable(p string) Denial {
	d := f.unseenPath(path.Dir(p))
	if d.Attribute == "bind_paths" { // to write there needs more than to see it
		d.Path, d.Operation, d.Attribute, d.Value = p, "write", "", ""
	}
	return d
}

// placeholder reports whether a path lies in what is there for the sandbox's sake alone.
func (f *Failure) placeholder(p string) bool {
	entry, _ := shared.Cover(f.Spec.Table, p)
	return entry != nil && entry.Access == shared.ReadOnly && entry.Missing == shared.MissingHold && f.Machine.Stub(entry.Source)
}

// copyOfHidden is about a hidden file that a program copies: it finds a device node there, and can make none.
func (f *Failure) copyOfHidden(line string, copies []string) Denial {
	if !mentions(strings.ToLower(line), "create special file", "mknod \"", "cannot mknod") {
		return Denial{}
	}
	for _, p := range copies {
		for i := range f.Spec.Table {
			e := &f.Spec.Table[i]
			if hides(e) && path.Base(e.Path) == path.Base(p) {
				d := f.hidden(e.Path, e)
				d.Reason += ": a device node is in its place, which cannot be copied"
				return d
			}
		}
	}
	return Denial{}
}

// heldPath is about a path that exists only for the sandbox, and that the command wanted to make.
func (f *Failure) heldPath(p string) Denial {
	if entry, host := shared.Cover(f.Spec.Table, p); entry == nil || entry.Path != p || host == "" || !f.Machine.Stub(host) {
		return Denial{}
	}
	return f.notWritten(p)
}
