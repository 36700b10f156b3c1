package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
	"github.com/sbxhost/sbxhost/workspace"
)

// A guard is what no command may write, and why, for people.
type guard struct {
	path, origin string
	// stub is what holds its place while it does not exist.
	stub stubs.Stub
}

// defaultProtected are the names that cannot be written at the top of a writable
// directory unless the definition gives them up: tools of the host take them for
// instructions as soon as somebody opens the directory, or changes into it.
var defaultProtected = [...]string{".envrc", ".vscode", ".idea", ".mcp.json"}

// shellFiles are what shells run when they start. They are protected where they
// exist, and kept from being created in a home directory: no shell reads them
// anywhere else.
var shellFiles = [...]string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
}

// DefaultProtected lists the names that Definition.ProtectPathsExcept can give
// up.
func DefaultProtected() []string {
	return slices.Concat(defaultProtected[:], shellFiles[:], homeFiles[:])
}

// guardDefaults adds guards for the list above, in every directory that the
// definition makes writable.
func (r *resolver) guardDefaults(m *mounts, d Definition, guards []guard) ([]guard, error) {
	var except []string
	for i, name := range d.ProtectPathsExcept {
		name = strings.TrimSuffix(name, "/")
		if !slices.Contains(DefaultProtected(), name) {
			return nil, attributeError(fmt.Sprintf("protect_paths_except[%d]", i), fmt.Sprintf("%q is not protected by default, or cannot be given up", name),
				"choose among "+strings.Join(DefaultProtected(), ", "))
		}
		except = append(except, name)
	}
	for _, have := range slices.Clone(m.spec.Table) {
		chosen := have.Why == "workspace" || strings.HasPrefix(have.Why, "workspace.writable") || strings.HasPrefix(have.Why, "bind_paths")
		if have.Access != shared.ReadWrite || !chosen || !isDir(have.Source) {
			continue
		}
		for _, name := range slices.Concat(defaultProtected[:], shellFiles[:]) {
			if slices.Contains(except, name) {
				continue
			}
			p := filepath.Join(have.Source, name)
			if slices.ContainsFunc(guards, func(g guard) bool { return g.path == p }) {
				continue
			}
			if slices.Contains(shellFiles[:], name) && !r.isHome(have.Source) {
				if _, err := os.Lstat(p); err != nil {
					continue
				}
			}
			guards = m.guard(guards, have.Source, p, "protected: by default, "+name, stubs.Stub{Path: p})
		}
	}
	return r.guardHomes(m, except, guards), nil
}

// surveyed looks through what a definition shows, and adds to m and out what is
// protected and what is hidden.
func (r *resolver) surveyed(m *mounts, d Definition, guards []guard, out *resolved) error {
	s, err := r.look(m, d)
	if err != nil {
		return err
	}
	if err := r.refuseControl(m, s.granted); err != nil {
		return err
	}
	if guards, err = r.nested(m, s, guards); err != nil {
		return err
	}
	if guards, err = r.guardDefaults(m, d, guards); err != nil {
		return err
	}
	if guards, err = r.guardRules(m, s, guards); err != nil {
		return err
	}
	guards = r.guardOwn(m, guards)
	guards = r.guardEngines(m, guards)
	if dir, _, err := follow(r.caller.stateDir()); err == nil && dir != "/" && (m.writable(dir) || m.writesIn(dir)) {
		guards = append(guards, guard{path: dir, origin: "protected: what sbxhost remembers", stub: stubs.Stub{Path: dir}})
		out.exposes = true
	}
	guards, shut := r.shutOut(m, guards)
	if err := m.protect(guards); err != nil {
		return err
	}
	var places []stubs.Stub
	if out.masks, places, err = r.mask(m, s, shut); err != nil {
		return err
	}
	out.places = append(m.stubs, places...)
	out.deny, out.repositories, out.sensitive = s.deny, repositoryPaths(s.found), s.within(&r.sensitive)
	m.spec.Deny = patterns(s.deny)
	r.remembered(func(c concealed, _ fs.FileInfo) { m.spec.Deny = append(m.spec.Deny, quotePath(c.path)) })
	m.spec.Protect = patterns(s.protect)
	for _, g := range slices.Concat(guards, shut) {
		if p := quotePath(g.path); !slices.Contains(m.spec.Protect, p) {
			m.spec.Protect = append(m.spec.Protect, p)
		}
	}
	if r.sensitive.Deny {
		m.spec.Deny = append(m.spec.Deny, r.sensitive.patterns()...)
	}
	for _, name := range d.ProtectPathsExcept {
		out.given = append(out.given, fmt.Sprintf("protect_paths_except: a command can write %s, which tools of the host take for instructions", name))
	}
	return nil
}

// isHome reports whether a directory is one that login shells start in.
func (r *resolver) isHome(dir string) bool {
	for _, home := range [...]string{r.home(), r.caller.home} {
		if home == "" {
			continue
		}
		if led, err := filepath.EvalSymlinks(home); dir == home || err == nil && dir == led {
			return true
		}
	}
	return false
}

// guardRules adds guards for protect_paths.
func (r *resolver) guardRules(m *mounts, s *survey, guards []guard) ([]guard, error) {
	for i := range s.protect {
		rule := &s.protect[i]
		if rule.literal == "" {
			continue
		}
		target, info, err := follow(rule.literal)
		if errors.Is(err, fs.ErrPermission) {
			continue
		} else if err != nil {
			return nil, attributeError(rule.attribute, err.Error(), "")
		}
		if info == nil && !m.creatable(target) {
			continue
		}
		guards = append(guards, guard{target, "protected: " + rule.origin(), stubs.Stub{Path: target}})
	}
	for _, f := range s.guarded.Found {
		if f.What != scan.Matched && f.What != scan.HardLink {
			continue
		}
		origin, target := "protected: "+s.protect[f.Pattern].origin(), f.Path
		if f.Symlink {
			m.notes = append(m.notes, fmt.Sprintf("%s: %s is a symlink, which a command can replace; what it leads to is protected", s.protect[f.Pattern].origin(), f.Path))
			led, info, err := follow(f.Path)
			if err != nil || info == nil {
				continue
			}
			target = led
		}
		guards = append(guards, guard{target, origin, stubs.Stub{Path: target}})
	}
	if len(guards) > maxMasks {
		return nil, attributeError("protect_paths", fmt.Sprintf("%d paths would have to be protected, more than %d", len(guards), maxMasks),
			"protect the directories that they lie in")
	}
	return guards, nil
}

// guard adds a guard for p, which lies in base, whether or not it exists. A
// mount is at a file or directory, and can not be on a symlink.
func (m *mounts) guard(guards []guard, base, p, origin string, stub stubs.Stub) []guard {
	at := base
	for name := range strings.SplitSeq(strings.TrimPrefix(p, strings.TrimSuffix(base, "/")+"/"), "/") {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, syscall.ENOTDIR):
			return guards // what is above it is a file
		case errors.Is(err, fs.ErrNotExist):
			return append(guards, guard{p, origin, stub})
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			m.notes = append(m.notes, fmt.Sprintf("%s: %s is a symlink, which a command can replace", strings.TrimPrefix(origin, "protected: "), at))
			return guards
		}
	}
	return append(guards, guard{p, origin, stub})
}

// gitStub is what holds the place of a part of a git directory, so that git
// works on while it is there.
func gitStub(p string) stubs.Stub {
	switch filepath.Base(p) {
	case "commondir":
		// An empty one is an error to git, inside and outside.
		return stubs.Stub{Path: p, File: true, Content: workspace.SelfCommonDir}
	case "config", "config.worktree", "attributes", "gitdir":
		return stubs.Stub{Path: p, File: true}
	}
	// A directory is right even for .gitmodules: empty ones git does not see,
	// and an empty file would be committed by the next `git add`.
	return stubs.Stub{Path: p}
}
