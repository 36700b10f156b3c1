package view

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// Origins of entries without an attribute.
const (
	OriginTemp       = "workspace.temp"
	OriginHome       = "home of the session"
	OriginAbove      = "workspace, the directory above"
	OriginToolchains = "workspace.toolchains"
	originGit        = "git: "
	protected        = "protected: "
)

// Show begins a table with what the definition and the workspace show. Its errors name the
// attribute.
func Show(in *Input, facts Facts) (*View, error) {
	v := newView(in, facts)
	if v.gitWritable {
		v.Remarks = append(v.Remarks, `git = "full": a command can write the hooks and the configuration that git outside of the sandbox obeys`)
	}
	if in.Session.Home != "" && v.home() != "" {
		v.show(shared.Entry{Source: in.Session.Home, Path: v.home(), Access: shared.ReadWrite, Why: OriginHome})
	}
	for _, root := range in.Roots {
		if err := v.showRoot(root); err != nil {
			return nil, err
		}
	}
	var errs []error
	for i, b := range in.BindPaths {
		errs = append(errs, v.showBind(fmt.Sprintf("bind_paths[%d]", i), b))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, dir := range in.Toolchain {
		v.showToolchain(dir)
	}
	for i, text := range in.UnixSockets {
		if err := v.showSocket(fmt.Sprintf("unix_sockets[%d]", i), text); err != nil {
			return nil, err
		}
	}
	var err error
	if v.Devices, err = v.checkDevices(); err != nil {
		return nil, err
	}
	if err := v.checkPlanted(); err != nil {
		return nil, err
	}
	if err := v.checkTrusted(); err != nil {
		return nil, err
	}
	if !in.Unisolated {
		var err error
		if v.givenUp, err = v.namesGivenUp(); err != nil {
			return nil, err
		}
	}
	if err := v.showSubstitutes(); err != nil {
		return nil, err
	}
	return v, v.showAgent()
}

func (v *View) showRoot(root workspace.RootDir) error {
	e := shared.Entry{Source: root.Path, Path: root.Path, Access: shared.ReadOnly, Why: "workspace"}
	if root.Field != "root" {
		e.Why = "workspace." + root.Field
	}
	if root.Writable {
		e.Access = shared.ReadWrite
	}
	raw := root.Declared
	switch {
	case root.Field == "temp_alias":
		// Also at the host's own path. Without isolation only there: TMPDIR names it.
		if e.Why, e.Access = OriginTemp, shared.ReadWrite; !v.in.Unisolated {
			e.Path = "/tmp"
			if err := v.add(e); err != nil {
				return err
			}
		}
		e.Path = e.Source
	case strings.HasPrefix(root.Field, "readable[") && !v.inWritableRoot(root.Path):
		v.ephemeral(&e)
	case root.Field == "root":
		if v.in.ReadOnly {
			e.Access = shared.ReadOnly
		}
		switch dir := v.in.Workdir; {
		case dir == "" || dir == "host":
		case !path.IsAbs(dir) || path.Clean(dir) != dir:
			return invalidf("workdir", `use "host" or a path such as "/workspace"`, "%q is neither \"host\" nor an absolute path in its shortest form", dir)
		default:
			e.Path, raw = dir, dir
		}
		v.Workdir = e.Path
	}
	if err := v.add(e); err != nil {
		return err
	}
	if root.Spelled != "" && e.Path == e.Source {
		at := e
		at.Source, at.Path, raw = root.Of, root.Of, root.Spelled
		return v.addSpelling(at, raw)
	}
	return v.addSpelling(e, raw)
}

// ephemeral makes an entry writable until the end of the session; the host's files do not change.
// The kernel cannot do that for a file, nor for a tree of another user, where the modes of the
// host's files count.
func (v *View) ephemeral(e *shared.Entry) {
	if way := v.facts.Follow(e.Source); way.Kind != Directory || way.UID != v.in.User.UID {
		return
	}
	v.WantsSession = true
	if v.in.Session.Dir == "" {
		return
	}
	e.Access, e.Degradable = shared.Overlay, true
}

// inWritableRoot reports whether p is in a root that commands write to: a readable root there is an
// exception.
func (v *View) inWritableRoot(p string) bool {
	return slices.ContainsFunc(v.in.Roots, func(root workspace.RootDir) bool {
		return root.Writable && root.Field != "temp_alias" && paths.Inside(root.Path, p)
	})
}

// checkText refuses an invalid path of a definition.
func (v *View) checkText(attribute, text string) error {
	switch {
	case text == "":
		return Invalid(attribute, "its path is empty", "")
	case strings.IndexByte(text, 0) >= 0:
		return Invalid(attribute, "its path contains a NUL byte", "")
	case slices.Contains(strings.Split(text, "/"), ".."):
		return invalidf(attribute, "write the path without it", "%q has a \"..\" component", text)
	case (text == "~" || strings.HasPrefix(text, "~/")) && v.in.User.Home == "":
		return invalidf(attribute, "set HOME or write an absolute path", "%q: no home directory is known", text)
	}
	return nil
}

// Absolute makes a definition's path absolute, without other changes: "~/" is relative to home, and
// other relative paths to root.
func Absolute(home, root, text string) string {
	switch {
	case text == "~" || strings.HasPrefix(text, "~/"):
		return path.Join(home, text[1:])
	case !path.IsAbs(text):
		return path.Join(root, text)
	}
	return path.Clean(text)
}

func (v *View) absolute(text string) string { return Absolute(v.in.User.Home, v.root(), text) }

// root is the project's directory.
func (v *View) root() string {
	for _, r := range v.in.Roots {
		if r.Field == "root" {
			return r.Path
		}
	}
	return "/"
}

func (v *View) showBind(attribute string, b Bind) error {
	if err := v.checkText(attribute, b.Host); err != nil {
		return err
	}
	raw := v.absolute(b.Host)
	way := v.facts.Follow(raw)
	switch {
	case way.Err != nil:
		return Invalid(attribute, fmt.Sprintf("%q: %v", raw, way.Err), "")
	case way.Kind == Absent && b.Optional:
		return nil
	case way.Kind == Absent:
		return invalidf(attribute, "create it, or say optional = true to do without it", "%q does not exist", raw)
	case way.Kind != Directory && strings.HasSuffix(b.Host, "/"):
		return invalidf(attribute, "leave out the slash at its end", "%q is no directory", raw)
	case way.End == "/":
		return Invalid(attribute, "the whole host cannot be bound", `say filesystem = "host" to show it read-only`)
	case paths.Inside("/proc", way.End):
		return invalidf(attribute, "leave it out", "%q cannot be bound: it shows the host's processes, and each command has a /proc of its own", raw)
	}
	e := shared.Entry{Source: way.End, Path: way.End, Access: shared.ReadOnly, Why: attribute}
	if b.Writable {
		e.Access = shared.ReadWrite
	}
	if b.Container != "" {
		if !path.IsAbs(b.Container) || path.Clean(b.Container) != b.Container {
			return invalidf(attribute, "", "container path %q is not absolute and in its shortest form", b.Container)
		}
		e.Path = b.Container
		return v.add(e)
	}
	if err := v.add(e); err != nil {
		return err
	}
	return v.addSpelling(e, raw)
}

// add adds an entry that somebody asks for.
func (v *View) add(e shared.Entry) error {
	if i, taken := v.byPath[e.Path]; taken {
		have := v.entries[i]
		if have.Source == e.Source && have.Access == e.Access {
			return nil
		}
		return invalidf(e.Why, "give one of them another destination or access", "%q has the path %q inside, which %q (%s) has already", e.Source, e.Path, have.Source, have.Why)
	}
	v.put(e)
	return nil
}

// show adds an entry that nobody asks for, unless the path is taken.
func (v *View) show(e shared.Entry) {
	if _, taken := v.byPath[e.Path]; !taken {
		v.put(e)
	}
}

// addSpelling shows an entry also at raw, its author's spelling, if symlinks made that another path
// that leads nowhere inside.
func (v *View) addSpelling(e shared.Entry, raw string) error {
	if raw == e.Source || raw == e.Path || v.wholeHost && v.inView(raw) && !v.inHome(raw) {
		return nil
	}
	if paths.InsideAny(systemDirs[:], raw) {
		return nil // the operating system's own links are part of the view
	}
	for _, have := range v.entries {
		if have.Access.Shows() && have.Source == have.Path && raw != have.Source && paths.Inside(have.Source, raw) {
			return nil // the link itself is visible
		}
	}
	e.Path = raw
	v.Spellings = append(v.Spellings, raw)
	return v.add(e)
}

// inHome reports whether a path is in a home, in which only entries show.
func (v *View) inHome(p string) bool {
	return slices.ContainsFunc(v.in.Homes, func(home string) bool {
		way := v.facts.Follow(home)
		return way.Err == nil && !hasSystem(way.End) && paths.Inside(way.End, p)
	})
}

// showToolchain shows a directory or file of a toolchain, if it exists and the path is free.
func (v *View) showToolchain(dir ToolDir) {
	way := v.facts.Follow(dir.Path)
	if way.Err != nil || way.Kind != Directory && way.Kind != File || !v.addToolchain(dir.Path, &way) {
		return // as most are
	}
	if name := dir.Variable; name != "" && !slices.Contains(v.Variables, name) {
		// Inside, XDG_CACHE_HOME and the like must be writable for other programs.
		if !strings.HasPrefix(name, "XDG_") || v.home() != "" && paths.Inside(v.home(), dir.Value) {
			v.Variables = append(v.Variables, name)
		}
	}
}

func (v *View) addToolchain(spelled string, way *Way) bool {
	if at, host := v.cover(spelled); at != nil && host == way.End {
		return true // the definition, or another toolchain, shows it
	} else if at != nil && at.Why != OriginToolchains && at.Path == spelled {
		return false // the definition shows something else there
	}
	if link := v.replaceable(way); link != "" || v.tooBroad(way.End) {
		return false
	}
	e := shared.Entry{Source: way.End, Path: way.End, Access: shared.ReadOnly, Why: OriginToolchains}
	v.ephemeral(&e)
	if e.Access == shared.ReadOnly && v.inView(way.End) {
		// Only its other name may be missing.
		if way.End == spelled {
			return true
		}
	} else {
		v.show(e)
	}
	if way.End != spelled {
		_ = v.addSpelling(e, spelled) // what the definition shows there stays
	}
	return true
}

// SecretPlaces are directories, below a home, in which people and tools keep only credentials: no
// toolchain is in them.
var SecretPlaces = [...]string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".pki", ".mozilla", ".thunderbird", ".local/share/keyrings",
}

// tooBroad reports whether a link leads to something larger than a toolchain.
func (v *View) tooBroad(source string) bool {
	home := v.in.User.Home
	if home != "" && paths.Inside(source, home) || source == "/" {
		return true
	}
	if home != "" && slices.ContainsFunc(SecretPlaces[:], func(place string) bool { return paths.Inside(path.Join(home, place), source) }) {
		return true
	}
	// The project's own entry must not change.
	return slices.ContainsFunc(v.in.Roots, func(root workspace.RootDir) bool { return paths.Inside(source, root.Path) })
}

// showSocket shows a socket that a definition names, if nothing else does.
func (v *View) showSocket(attribute, text string) error {
	socket, err := v.grantedSocket(attribute, text)
	if err != nil || socket == "" || len(v.places(socket)) > 0 {
		return err
	}
	e := shared.Entry{Source: socket, Path: socket, Access: shared.ReadOnly, Why: attribute}
	if err := v.add(e); err != nil {
		return err
	}
	return v.addSpelling(e, v.absolute(text))
}

// grantedSocket returns the resolved socket of an element of unix_sockets. It returns "" for a
// socket that does not exist. If this socket appears later, it is hidden.
func (v *View) grantedSocket(attribute, text string) (string, error) {
	if err := v.checkText(attribute, text); err != nil {
		return "", err
	}
	way := v.facts.Follow(v.absolute(text))
	switch {
	case way.Err == ErrUnsearchable || way.Err == nil && way.Kind == Absent:
		return "", nil
	case way.Err != nil:
		return "", Invalid(attribute, fmt.Sprintf("%q: %v", text, way.Err), "")
	case way.Kind != Socket:
		return "", invalidf(attribute, "name the socket file itself", "%q is not a socket", way.End)
	}
	return way.End, nil
}

// showAgent shows the agent's socket, and nothing beside it.
func (v *View) showAgent() error {
	i := slices.Index(v.in.Credentials, CredentialSSHAgent)
	if i < 0 {
		return nil
	}
	attribute := fmt.Sprintf("credentials[%d]", i)
	if err := v.in.Agent.Err; err != nil {
		return Invalid(attribute, err.Error(), "start ssh-agent, or leave ssh-agent out")
	}
	if other := v.in.User.Other; other != "" {
		return &shared.Error{Kind: shared.ErrUnsupported, Attribute: attribute,
			Message: fmt.Sprintf("commands run as the workspace's owner, %s, who cannot use the agent of root", other),
			Hint:    "run as that user"}
	}
	return v.add(shared.Entry{Source: v.in.Agent.Socket, Path: v.in.Agent.Socket, Access: shared.ReadOnly, Why: attribute})
}

// checkPlanted refuses a source whose spelling goes through a symlink in a writable tree: an
// earlier command could have put it there, to choose what this one sees.
func (v *View) checkPlanted() error {
	check := func(attribute, spelled string) error {
		way := v.facts.Follow(spelled)
		if link := v.replaceable(&way); link != "" {
			return invalidf(attribute, "name its target instead", "%q is a symlink in a directory that commands can write to, and could have been put there by one", link)
		}
		return nil
	}
	for _, root := range v.in.Roots {
		if root.Field != "root" && root.Field != "temp_alias" {
			if err := check("workspace."+root.Field, root.Declared); err != nil {
				return err
			}
		}
	}
	for i, b := range v.in.BindPaths {
		if err := check(fmt.Sprintf("bind_paths[%d]", i), v.absolute(b.Host)); err != nil {
			return err
		}
	}
	for i, text := range v.in.UnixSockets {
		if err := check(fmt.Sprintf("unix_sockets[%d]", i), v.absolute(text)); err != nil {
			return err
		}
	}
	return nil
}
