package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
	"github.com/sbxhost/sbxhost/workspace"
)

// caller is what a Host knows of the program and person it works for.
type caller struct {
	uid     int
	home    string   // absolute, or empty
	environ []string // "name=value"
}

// resolver turns definitions into Specs. It reads the file system and changes
// nothing of it but what hideSessions says, and that it makes the recorded where
// commands could.
type resolver struct {
	ws           *workspace.Workspace
	caller       caller
	owner        *owner        // whom commands run as, where that is not the caller
	outer        []string      // what else would be the workspace's root, but for a .git below
	protected    []string      // host files that are never writable inside
	relied       []relied      // what is never led elsewhere from inside
	recorded     []record      // of the host's decisions, never writable inside
	programs     []string      // executables that this host may run outside of sandboxes
	own          []own         // what is never created inside, nor written
	engines      []enginePlace // where engines come from that are not installed with this program
	session      shared.Session
	sessionHome  string    // the session's home directory, a host path; "" leaves it to the engine
	sessionBases []string  // what holds sessions, of this host and others
	toolchains   *toolList // nil: none is shown

	sensitive Sensitive
	// addOns is where people put programs of their own, with their settings, in the
	// operating system's view. The rest of that is its distributor's, or too much
	// to be searched for each command. "" searches nothing of it.
	addOns     string
	control    []string              // further control sockets
	scanners   *scanners             // nil remembers nothing
	unisolated func(Definition) bool // nil: none is
}

// unconfined reports whether commands of a definition are known to run without
// isolation, so that nothing of what follows matters.
func (r *resolver) unconfined(d Definition) bool { return r.unisolated != nil && r.unisolated(d) }

// owner is the user a root caller's commands run as.
type owner struct {
	user shared.User
	name string
	home string
}

// resolved is a definition carried through to absolute paths.
type resolved struct {
	spec    shared.Spec
	workdir string // where the workspace's root lies inside
	// wantsSession says that with a directory for the session some of what is
	// read-only would be writable.
	wantsSession bool
	toolEnv      []string // variables that lead to the toolchains shown

	// spellings are the destinations that show a mount once more, where its author
	// has spelled it through a symlink.
	spellings []string
	// notes say what a person should know: what is held less well than the
	// definition's author may expect.
	notes []string

	// masks are what this command must neither read nor write, and places what
	// has to be there for mounts to lie on.
	masks  []shared.Mask
	places []stubs.Stub
	// exposes says that what sbxhost remembers lies in what commands can write to,
	// and is kept from them by a mount alone.
	exposes bool
	// repositories are those that were there before, and sensitive the files
	// that look as if they held secrets and can be seen.
	repositories []string
	sensitive    []string
	deny         []pathRule
	given        []string // what the definition gives up, for people
}

// attributeError is an ErrInvalidSpec that names an attribute.
func attributeError(attribute, message, hint string) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: message, Hint: hint}
}

func (r *resolver) resolve(name string, d Definition) (*resolved, error) {
	out := &resolved{spec: shared.Spec{
		Sandbox: name,
		Session: r.session,
		Options: d.Config,
		Limits: shared.Limits{
			Memory: d.Limits.Memory, CPUs: d.Limits.CPUs, PIDs: d.Limits.PIDs,
			OpenFiles: d.Limits.OpenFiles, TempSize: d.Limits.TempSize,
		},
	}}
	spec := &out.spec
	switch d.Filesystem {
	case "", "minimal":
		spec.Filesystem = shared.FilesystemMinimal
	case "host":
		spec.Filesystem = shared.FilesystemHost
	default:
		return nil, attributeError("filesystem", fmt.Sprintf("unknown view %q", d.Filesystem), `use "minimal" or "host"`)
	}
	if d.Network {
		spec.Network.Mode = shared.NetworkHost
	}
	switch d.Limits.Enforce {
	case "", "required":
	case "best_effort":
		spec.Limits.BestEffort = true
	default:
		return nil, attributeError("limits.enforce", fmt.Sprintf("unknown value %q", d.Limits.Enforce), `use "required" or "best_effort"`)
	}
	if r.owner != nil {
		user := r.owner.user
		spec.User = &user
	}
	if home := r.home(); home != "" && !coversSystem(home) {
		spec.Home = home
	}

	m := mounts{spec: spec}
	if r.sessionHome != "" && spec.Home != "" {
		m.show(shared.Entry{Source: r.sessionHome, Path: spec.Home, Access: shared.ReadWrite, Why: homeOrigin})
	}
	if err := r.mountWorkspace(&m, d, out); err != nil {
		return nil, err
	}
	for i, b := range d.BindPaths {
		if err := r.mountBind(&m, fmt.Sprintf("bind_paths[%d]", i), b); err != nil {
			return nil, err
		}
	}
	if r.toolchains != nil {
		r.mountToolchains(&m, out)
	}
	if err := r.mountSockets(&m, d); err != nil {
		return nil, err
	}
	if err := r.checkPlanted(&m, d); err != nil {
		return nil, err
	}
	if err := r.checkRelied(&m, d); err != nil {
		return nil, err
	}
	if err := checkCredentials(d.Credentials); err != nil {
		return nil, err
	}
	if err := r.mountAgent(&m, d); err != nil {
		return nil, err
	}
	var guards []guard
	for _, p := range r.protected {
		guards = append(guards, guard{path: p, origin: "protected: the configuration in force"})
	}
	for _, p := range r.programs {
		// Whatever is not there yet cannot be mounted on, and is not run before
		// it has been checked.
		if _, err := os.Lstat(p); err == nil && m.writable(p) {
			guards = append(guards, guard{path: p, origin: "protected: a program of sbxhost"})
		}
	}
	recorded, err := r.records(&m)
	if err != nil {
		return nil, err
	}
	guards = append(guards, recorded...)
	guards = append(guards, r.repositories(&m, d)...)
	if !r.unconfined(d) {
		if err := r.hideSessions(&m); err != nil {
			return nil, err
		}
		if err := r.surveyed(&m, d, guards, out); err != nil {
			return nil, err
		}
		r.keepSessions(&m)
	}
	out.notes = append(out.notes, m.notes...)
	out.spellings = m.spellings
	return out, nil
}

// coversSystem reports whether a private home at that path would hide the
// operating system, as that of some service accounts would.
func coversSystem(home string) bool {
	for _, dir := range [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix", "/proc", "/dev", "/sys"} {
		if inside(home, dir) || inside(dir, home) {
			return true
		}
	}
	return false
}

// home is the path of the command's home directory.
func (r *resolver) home() string {
	if r.owner != nil {
		return r.owner.home
	}
	return r.caller.home
}

func (r *resolver) mountWorkspace(m *mounts, d Definition, out *resolved) error {
	for _, root := range r.ws.Roots() {
		mount := shared.Entry{Source: root.Path, Path: root.Path, Why: "workspace", Access: shared.ReadOnly}
		if root.Field != "root" {
			mount.Why = "workspace." + root.Field
		}
		if root.Writable {
			mount.Access = shared.ReadWrite
		}
		raw := root.Declared
		switch {
		case root.Field == "temp_alias":
			if err := r.mountTemp(m, mount, raw); err != nil {
				return err
			}
			continue
		case strings.HasPrefix(root.Field, "readable[") && !r.inWritableRoot(root.Path):
			r.ephemeral(out, &mount)
		}
		if root.Field == "root" {
			if d.ReadOnly {
				mount.Access = shared.ReadOnly
			}
			switch {
			case d.Workdir == "" || d.Workdir == "host":
			case !filepath.IsAbs(d.Workdir) || filepath.Clean(d.Workdir) != d.Workdir:
				return attributeError("workdir", fmt.Sprintf("%q is neither \"host\" nor an absolute path in its shortest form", d.Workdir), `use "host" or a path such as "/workspace"`)
			default:
				mount.Path, raw = d.Workdir, d.Workdir
			}
			out.workdir = mount.Path
		}
		if err := m.add(mount); err != nil {
			return err
		}
		if err := m.addSpelling(mount, raw); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) mountBind(m *mounts, attribute string, b Bind) error {
	host := b.Host
	switch {
	case host == "":
		return attributeError(attribute, "its host path is empty", "")
	case strings.IndexByte(host, 0) >= 0:
		return attributeError(attribute, "its host path contains a NUL byte", "")
	case slices.Contains(strings.Split(host, "/"), ".."):
		return attributeError(attribute, fmt.Sprintf("%q has a \"..\" component", host), "write the path that is meant")
	case host == "~" || strings.HasPrefix(host, "~/"):
		if r.home() == "" {
			return attributeError(attribute, fmt.Sprintf("%q: no home directory is known", host), "set HOME or write an absolute path")
		}
	}
	raw := r.hostSpelling(host)
	source, err := filepath.EvalSymlinks(raw)
	if errors.Is(err, fs.ErrNotExist) {
		if b.Optional {
			return nil
		}
		return attributeError(attribute, fmt.Sprintf("%s does not exist", raw), "create it, or say optional = true to do without it")
	} else if err != nil {
		return attributeError(attribute, err.Error(), "")
	}
	if source == "/" {
		return attributeError(attribute, "the whole host cannot be bound", `say filesystem = "host" to show it read-only`)
	}
	mount := shared.Entry{Source: source, Path: source, Why: attribute, Access: shared.ReadOnly}
	if b.Writable {
		mount.Access = shared.ReadWrite
	}
	if b.Container != "" {
		if !filepath.IsAbs(b.Container) || filepath.Clean(b.Container) != b.Container {
			return attributeError(attribute, fmt.Sprintf("container path %q is not absolute and in its shortest form", b.Container), "")
		}
		mount.Path = b.Container
		return m.add(mount)
	}
	if err := m.add(mount); err != nil {
		return err
	}
	return m.addSpelling(mount, raw)
}

// checkPlanted refuses a source whose spelling goes through a symlink in a tree
// that commands can write to: an earlier one could have put it there, and so
// have chosen what this one is shown.
func (r *resolver) checkPlanted(m *mounts, d Definition) error {
	for _, root := range r.ws.Roots() {
		if root.Field != "root" {
			if err := m.planted("workspace."+root.Field, root.Declared); err != nil {
				return err
			}
		}
	}
	for i, b := range d.BindPaths {
		if err := m.planted(fmt.Sprintf("bind_paths[%d]", i), r.hostSpelling(b.Host)); err != nil {
			return err
		}
	}
	return nil
}

func (m *mounts) planted(attribute, spelling string) error {
	if _, link, _ := m.replaceable(spelling, nil); link != "" {
		return attributeError(attribute, fmt.Sprintf("%s is a symlink in a directory that commands can write to, and could have been put there by one", link), "name its target instead")
	}
	return nil
}

// writable reports whether a writable mount shows a path of the host.
func (m *mounts) writable(host string) bool {
	return slices.ContainsFunc(m.spec.Table, func(have shared.Entry) bool {
		return have.Access == shared.ReadWrite && inside(have.Source, host)
	})
}

// writesIn reports whether commands can write to a part of a directory of the host.
func (m *mounts) writesIn(dir string) bool {
	return slices.ContainsFunc(m.spec.Table, func(have shared.Entry) bool {
		return have.Access == shared.ReadWrite && inside(dir, have.Source)
	})
}

// hostSpelling makes the path of a bind absolute, as it was written.
func (r *resolver) hostSpelling(host string) string {
	switch {
	case host == "~" || strings.HasPrefix(host, "~/"):
		host = filepath.Join(r.home(), host[1:])
	case !filepath.IsAbs(host):
		host = filepath.Join(r.ws.Root(), host)
	}
	return filepath.Clean(host)
}

// mounts collects a Spec's mounts, at most one for each destination.
type mounts struct {
	spec  *shared.Spec
	notes []string
	stubs []stubs.Stub
	// spellings are destinations, as in resolved.
	spellings []string
}

func (m *mounts) add(mount shared.Entry) error {
	for _, have := range m.spec.Table {
		if have.Path != mount.Path {
			continue
		}
		if have.Source == mount.Source && have.Access == mount.Access {
			return nil
		}
		return attributeError(mount.Why,
			fmt.Sprintf("%s lies at %s inside, where %s (%s) lies already", mount.Source, mount.Path, have.Source, have.Why),
			"give one of them another place or access")
	}
	m.spec.Table = append(m.spec.Table, mount)
	return nil
}

// addSpelling shows mount at raw as well, the spelling its author used, where
// symlinks made that another path and nothing inside would lead there.
func (m *mounts) addSpelling(mount shared.Entry, raw string) error {
	if raw == mount.Source || raw == mount.Path || m.spec.Filesystem == shared.FilesystemHost {
		return nil
	}
	for _, system := range [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/nix"} {
		if inside(system, raw) {
			return nil // the operating system's own links are part of the view
		}
	}
	for _, have := range m.spec.Table {
		if have.Access != shared.Private && have.Source == have.Path && raw != have.Source && inside(have.Source, raw) {
			return nil // the link itself is visible
		}
	}
	mount.Path = raw
	m.spellings = append(m.spellings, raw)
	return m.add(mount)
}

// asHost gives the Spec for an engine that shows every path where the host has
// it, and what a person should know of that: the host's own links lead to
// second spellings there, or nothing does.
func (r *resolved) asHost() (shared.Spec, []string) {
	spec := r.spec
	var notes []string
	spec.Table = slices.DeleteFunc(slices.Clone(spec.Table), func(m shared.Entry) bool {
		if !slices.Contains(r.spellings, m.Path) {
			return false
		}
		if !slices.ContainsFunc(systemLinks[:], func(link string) bool { return inside(link, m.Path) }) {
			notes = append(notes, fmt.Sprintf("%s: inside, the symlink %s does not lead to %s", m.Why, m.Path, m.Source))
		}
		return true
	})
	return spec, notes
}

// systemLinks are the links at the top of a macOS, which work inside as well.
var systemLinks = [...]string{"/tmp", "/var", "/etc", "/home"}

// insidePath gives the path inside at which a host path shows.
func insidePath(spec *shared.Spec, host string) (string, bool) {
	best := -1
	for i, m := range spec.Table {
		if m.Access == shared.Private || !inside(m.Source, host) {
			continue
		}
		if best < 0 || len(m.Source) > len(spec.Table[best].Source) {
			best = i
		}
	}
	if best < 0 {
		return "", false
	}
	m := spec.Table[best]
	return filepath.Join(m.Path, strings.TrimPrefix(host, m.Source)), true
}

// writableInside reports whether a command can write at a path inside what is
// still there for commands of other sessions. An overlay is not: what is put
// there ends with the session.
func writableInside(spec *shared.Spec, p string) bool {
	deepest, writable := "", false
	cover := func(dir string, w bool) {
		if inside(dir, p) && len(dir) >= len(deepest) {
			deepest, writable = dir, w
		}
	}
	// What is in /proc leads wherever a process wants it to.
	for _, scratch := range [...]string{"/tmp", "/var/tmp", "/run", "/dev", "/proc", "/private/tmp", "/private/var/tmp"} {
		cover(scratch, true)
	}
	if spec.Home != "" {
		cover(spec.Home, true)
	}
	for _, m := range spec.Table {
		cover(m.Path, m.Access == shared.ReadWrite || m.Access == shared.Private)
	}
	return writable
}

// usablePath reports whether a directory may stand in a command's PATH: neither
// it nor what symlinks in it lead to is where a command could plant a program for
// the next one. What cannot be followed is of no use there.
func usablePath(spec *shared.Spec, dir string) bool {
	m := mounts{spec: spec}
	clean := filepath.Clean(dir)
	host := dir // as it is written: after a symlink, a ".." is not what Clean takes it for
	if _, at := m.cover(clean); at != "" && at != clean {
		host = at
	}
	led, _, err := follow(host)
	return err == nil && !writableInside(spec, clean) && !m.creatable(led) &&
		(led == filepath.Clean(host) || !writableInside(spec, led))
}

// inside reports whether p is root or lies below it, by components: /a/b-evil
// is not inside /a/b. Both are absolute and clean.
func inside(root, p string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root) && p[len(root)] == '/'
}

// lookupOwner finds whom a root caller's commands run as: the owner of the
// workspace, so that what they create is the user's. It is nil for any other
// caller, who can only be himself.
func lookupOwner(ws *workspace.Workspace, c caller) *owner {
	uid, gid := ws.Owner()
	if c.uid != 0 || uid == 0 {
		return nil
	}
	o := &owner{user: shared.User{UID: uid, GID: gid}}
	account, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return o // a uid without an account, as in containers: no home, no name
	}
	o.name, o.home = account.Username, account.HomeDir
	if n, err := strconv.ParseUint(account.Gid, 10, 32); err == nil {
		o.user.GID = uint32(n)
	}
	if groups, err := account.GroupIds(); err == nil {
		for _, g := range groups {
			if n, err := strconv.ParseUint(g, 10, 32); err == nil {
				o.user.Groups = append(o.user.Groups, uint32(n))
			}
		}
	}
	return o
}
