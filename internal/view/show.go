package view

import (
	"cmp"
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
	OriginParent     = "workspace, the directory above"
	OriginToolchains = "workspace.toolchains"
	originGit        = "git: a directory of the repository"
	protected        = "protected: "
)

// Show begins a table with what the definition and the workspace show. Its errors name the
// attribute.
func Show(in *Input, facts Facts) (*View, error) {
	v := &View{in: in, facts: facts, wholeHost: in.Filesystem == FilesystemHost, gitWritable: in.Git == GitFull, byPath: map[string]int{}, bySource: map[string][]int{},
		held: map[string]bool{}, hiddenAround: map[string]bool{}, FixedContents: map[string][]byte{}}
	for _, home := range in.Homes {
		if way := facts.Follow(home); way.Kind == Directory && !hasSystem(way.End) {
			v.homes = append(v.homes, way.End)
		}
	}
	if v.gitWritable {
		v.Remarks = append(v.Remarks, `git = "full": a command can write the hooks and the configuration that git outside of the sandbox obeys`)
	}
	if in.SessionHome != "" && v.home() != "" {
		v.show(shared.Entry{Source: in.SessionHome, Path: v.home(), Access: shared.ReadWrite, Why: OriginHome})
	}
	for _, root := range in.Roots {
		if err := v.showRoot(root); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{v.showBinds, v.showToolchains, v.showSockets, v.showDevices, v.showAgent, v.refusePlantedLinks, v.checkExcept, v.showSubstitutes} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// isRoot reports whether an entry shows the project's root or a writable one.
func isRoot(e *shared.Entry) bool {
	return e.Why == "workspace" || strings.HasPrefix(e.Why, "workspace.writable")
}

// readOnly is an entry that shows a path of the host at the same path.
func readOnly(p, why string) shared.Entry {
	return shared.Entry{Source: p, Path: p, Access: shared.ReadOnly, Why: why}
}

func (v *View) showRoot(root workspace.RootDir) error {
	e := readOnly(root.Path, "workspace")
	if root.Field != "root" {
		e.Why = "workspace." + root.Field
	}
	if root.Writable {
		e.Access = shared.ReadWrite
	}
	raw := root.Declared
	if root.Field != "temp_alias" {
		v.spell("workspace."+root.Field, raw)
		// A command can have put a symlink there for the moment at which the workspace was resolved.
		if way := v.facts.Follow(raw); way.Err == nil && way.Kind != Absent && way.End != root.Path {
			return invalidf("workspace."+root.Field, "name that directory itself", "%q led to %q, and leads to %q now", raw, root.Path, way.End)
		}
	}
	switch {
	case root.Field == "temp_alias":
		// Both at /tmp and at the host's own path. Without isolation only there: TMPDIR names it.
		if e.Why, e.Access = OriginTemp, shared.ReadWrite; !v.in.Unisolated {
			e.Path = "/tmp"
			if err := v.add(e); err != nil {
				return err
			}
		}
		e.Path = e.Source
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
	default:
		// In a writable root, a readable one is an exception that commands must not write.
		around := func(r workspace.RootDir) bool {
			return r.Writable && r.Field != "temp_alias" && paths.Inside(r.Path, root.Path)
		}
		if strings.HasPrefix(root.Field, "readable[") && !slices.ContainsFunc(v.in.Roots, around) {
			v.ephemeral(&e)
		}
	}
	if err := v.add(e); err != nil {
		return err
	}
	if root.Spelled != "" && e.Path == e.Source {
		e.Source, e.Path, raw = root.Of, root.Of, root.Spelled
	}
	return v.addSpelling(e, raw)
}

// ephemeral makes an entry writable until the end of the session, by an overlay: the host's files do
// not change. There are no overlays of files, and in one of another user's directory the modes of the
// host's files would deny writes.
func (v *View) ephemeral(e *shared.Entry) {
	if way := v.facts.Follow(e.Source); way.Kind != Directory || way.UID != v.in.UID {
		return
	}
	v.WantsSession = true
	if v.in.SessionDir != "" {
		e.Access, e.Degradable = shared.Overlay, true
	}
}

// source makes a path of a definition absolute, and follows it.
func (v *View) source(attribute, text string) (raw string, way Way, err error) {
	switch {
	case text == "" || strings.Contains(text, "\x00"):
		return "", Way{}, Invalid(attribute, "its path is empty, or has a NUL byte", "")
	case slices.Contains(strings.Split(text, "/"), ".."):
		return "", Way{}, invalidf(attribute, "write the path without it", "%q has a \"..\" component", text)
	case (text == "~" || strings.HasPrefix(text, "~/")) && v.in.Home == "":
		return "", Way{}, invalidf(attribute, "set HOME or write an absolute path", "%q: no home directory is known", text)
	}
	raw = Absolute(v.in.Home, v.root(), text)
	v.spell(attribute, raw)
	if way = v.facts.Follow(raw); way.Err != nil {
		err = Invalid(attribute, fmt.Sprintf("%q: %v", raw, way.Err), "")
	}
	return raw, way, err
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

// root is the project's directory.
func (v *View) root() string { return v.in.Roots[0].Path }

func (v *View) showBinds() error {
	var errs []error
	for i, b := range v.in.BindPaths {
		errs = append(errs, v.showBind(fmt.Sprintf("bind_paths[%d]", i), b))
	}
	return errors.Join(errs...)
}

func (v *View) showBind(attribute string, b Bind) error {
	raw, way, err := v.source(attribute, b.Host)
	switch {
	case err != nil:
		return err
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
	e := readOnly(way.End, attribute)
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
	return cmp.Or(v.add(e), v.addSpelling(e, raw))
}

// add adds an entry that somebody asks for. It fails if the path is taken.
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

// addSpelling shows an entry also at raw, as its author spelled the path, unless that leads there inside
// by symlinks.
func (v *View) addSpelling(e shared.Entry, raw string) error {
	if raw == e.Source || raw == e.Path || v.wholeHost && v.inView(raw) && !paths.InsideAny(v.homes, raw) { // only entries show in a home
		return nil
	}
	if _, host := v.cover(raw); host == raw || paths.InsideAny(systemDirs[:], raw) {
		return nil // the link itself is visible, or part of the operating system
	}
	e.Path = raw
	v.Spellings = append(v.Spellings, raw)
	return v.add(e)
}

// showToolchains shows directories and files of toolchains, if they exist and the paths are free.
func (v *View) showToolchains() error {
	for _, dir := range v.in.Toolchain {
		way, name := v.facts.Follow(dir.Path), dir.Variable
		if way.Kind != Directory && way.Kind != File || !v.addToolchain(dir.Path, &way) || name == "" || slices.Contains(v.Variables, name) {
			continue // most do not exist
		}
		v.Variables = append(v.Variables, name)
	}
	return nil
}

func (v *View) addToolchain(spelled string, way *Way) bool {
	if at, host := v.cover(spelled); at != nil && host == way.End {
		return true // the definition, or another toolchain, shows it
	} else if at != nil && at.Why != OriginToolchains && at.Path == spelled {
		return false // the definition shows something else there
	}
	if v.tooBroad(way.End) {
		if !v.inView(way.End) {
			v.note("%s: %q is left out: %q may hold more than a toolchain", OriginToolchains, spelled, way.End)
		}
		return false
	}
	if link := v.plantedLink(way); link != "" {
		v.note("%s: %q is left out: the symlink %q is in a directory that commands can write to, and could have been put there by one", OriginToolchains, spelled, link)
		return false
	}
	e := readOnly(way.End, OriginToolchains)
	v.ephemeral(&e)
	if e.Access == shared.ReadOnly && v.inView(way.End) {
		if way.End == spelled { // else its other name may be missing
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

// SecretDirs are directories, below a home, in which people and tools keep only credentials: no
// toolchain is in them.
var SecretDirs = [...]string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".pki", ".mozilla", ".thunderbird", ".local/share/keyrings",
}

// MayHoldSecrets reports whether a path is in one of the SecretDirs of a home, or contains the home.
func MayHoldSecrets(home, p string) bool {
	return paths.Inside(p, home) || slices.ContainsFunc(SecretDirs[:], func(dir string) bool { return paths.Inside(path.Join(home, dir), p) })
}

// tooBroad reports whether the directory that a toolchain's path leads to may hold more than a toolchain.
func (v *View) tooBroad(source string) bool {
	// A root's own entry must not change.
	return source == "/" || v.holdsRoot(source) || v.in.Home != "" && MayHoldSecrets(v.in.Home, source)
}

// showSockets shows the sockets that a definition names, if nothing else does. If one does not exist,
// and appears later, it is hidden.
func (v *View) showSockets() error {
	for i, text := range v.in.UnixSockets {
		attribute := fmt.Sprintf("unix_sockets[%d]", i)
		spelled, way, err := v.source(attribute, text)
		switch {
		case way.Err == ErrUnsearchable || err == nil && way.Kind == Absent:
			continue
		case err != nil:
			return err
		case way.Kind != Socket:
			return invalidf(attribute, "name the socket file itself", "%q is not a socket", way.End)
		}
		v.grantedSockets = append(v.grantedSockets, way.End)
		if len(v.pathsInside(way.End)) > 0 {
			continue
		}
		e := readOnly(way.End, attribute)
		if err := cmp.Or(v.add(e), v.addSpelling(e, spelled)); err != nil {
			return err
		}
	}
	return nil
}

// showAgent shows the agent's socket, and nothing beside it.
func (v *View) showAgent() error {
	if v.in.Agent == "" {
		return nil
	}
	attribute := fmt.Sprintf("credentials[%d]", slices.Index(v.in.Credentials, CredentialSSHAgent))
	v.spell(attribute, v.in.Agent)
	socket := v.facts.Follow(v.in.Agent).End
	v.grantedSockets = append(v.grantedSockets, socket)
	return v.add(readOnly(socket, attribute))
}

// showDevices finds the devices that commands have.
func (v *View) showDevices() error {
	for i, text := range v.in.Devices {
		attribute := fmt.Sprintf("devices[%d]", i)
		_, way, err := v.source(attribute, text)
		kind := slices.IndexFunc(deviceKinds[:], func(k deviceKind) bool {
			ok, _ := path.Match(k.pattern, way.End)
			return ok
		})
		switch {
		case err != nil:
			return err
		case way.Kind != CharDevice:
			return invalidf(attribute, "leave it out if this machine does not have it", "there is no character device %q", text)
		case kind < 0:
			return invalidf(attribute, "docs/configuration.md lists the allowed ones: fuse, kvm, net/tun, render nodes of dri, and those of graphics processors for computing",
				"%q is a device that no command gets", text)
		case slices.Contains(v.Devices, way.End):
			return Invalid(attribute, "it is in the list already", "")
		}
		v.Remarks = append(v.Remarks, fmt.Sprintf("%s: %s gives %s", attribute, path.Clean(text), deviceKinds[kind].gives))
		v.Devices = append(v.Devices, way.End)
	}
	return nil
}

// showSubstitutes shows the trusted certificates, and the account of the user, unless the definition
// shows something else there.
func (v *View) showSubstitutes() error {
	for _, s := range v.in.Substitutes {
		if at, _ := v.cover(s.At); at != nil && s.Why == OriginAccount {
			continue
		}
		v.FixedContents[s.Path] = s.Content
		if err := v.add(shared.Entry{Source: s.Path, Path: s.At, Access: shared.ReadOnly, Why: s.Why}); err != nil {
			return err
		}
	}
	return nil
}

// A spelling is a path of the host as the author of an attribute spelled it.
type spelling struct{ attribute, path string }

func (v *View) spell(attribute, p string) { v.sources = append(v.sources, spelling{attribute, p}) }

// refusePlantedLinks refuses a source whose spelling goes through a symlink in a writable tree: an
// earlier command could have put it there, to choose what this one sees.
func (v *View) refusePlantedLinks() error {
	for _, s := range v.sources {
		way := v.facts.Follow(s.path)
		if link := v.plantedLink(&way); link != "" {
			return invalidf(s.attribute, fmt.Sprintf("instead of %q, name what it leads to", s.path), "%q is a symlink in a directory that commands can write to, and could have been put there by one", link)
		}
	}
	return nil
}

// plantedLink is a symlink of a way that an earlier command can have made, also one of another
// definition, or "".
func (v *View) plantedLink(way *Way) string {
	for _, p := range slices.Concat(way.Links, way.DotDots) {
		if v.in.Written != nil && v.in.Written(path.Dir(p)) != "" {
			return p
		}
	}
	return v.replaceableLink(way)
}
