package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
	"github.com/sbxhost/sbxhost/workspace"
)

// repositories shows what git needs of the workspace's repositories, and
// returns what must be guarded of all that the mounts make writable.
func (r *resolver) repositories(m *mounts, d Definition) (guards []guard) {
	var seen []string
	for _, root := range r.ws.Roots() {
		readOnly := !root.Writable || root.Field == "root" && d.ReadOnly
		if (root.Field == "root" || root.Writable) && isDir(root.Path) {
			seen = append(seen, root.Path)
			guards = append(guards, r.repository(m, root.Path, readOnly)...)
		}
	}
	// What else is bound is shown as far as its author says, and no further.
	for _, mount := range slices.Clone(m.spec.Table) {
		if mount.Access == shared.ReadWrite && strings.HasPrefix(mount.Why, "bind_paths[") &&
			!slices.Contains(seen, mount.Source) && isDir(mount.Source) {
			seen = append(seen, mount.Source)
			layout, more := m.layout(mount.Source)
			guards = append(guards, r.guardConfigured(m, mount.Source, layout, more)...)
		}
	}
	return guards
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// repository shows what git needs of the repository of one of the workspace's
// roots - for a worktree or a submodule that lies elsewhere - and returns what
// of it has to be guarded. A .git that does not make sense is itself guarded,
// and nothing that it names is shown: one command could else make it so and
// have the next one repair it with the guards gone.
func (r *resolver) repository(m *mounts, root string, readOnly bool) []guard {
	layout, guards := m.layout(root)
	writable := layout.Writable
	if readOnly {
		writable = nil
	}
	for _, dir := range layout.Readable {
		// Not where a bind shows it already: it may be a writable one.
		if _, at := m.cover(dir); at != dir && !slices.Contains(writable, dir) {
			m.show(shared.Entry{Source: dir, Path: dir, Why: gitOrigin(layout, dir), Access: shared.ReadOnly})
		}
	}
	for _, dir := range writable {
		if !inside(root, dir) {
			m.show(shared.Entry{Source: dir, Path: dir, Access: shared.ReadWrite, Why: gitOrigin(layout, dir)})
		}
	}
	return r.guardConfigured(m, root, layout, guards)
}

// layout reads how git lies in a directory, and what of it has to be guarded.
func (m *mounts) layout(dir string) (workspace.GitLayout, []guard) {
	layout, err := workspace.GitDirs(dir)
	if err != nil {
		m.notes = append(m.notes, fmt.Sprintf("%v: it is read-only inside, and git does not work there", err))
		return layout, m.guard(nil, dir, filepath.Join(dir, ".git"), "protected: git, not understood", stubs.Stub{Path: filepath.Join(dir, ".git")})
	}
	var guards []guard
	for _, p := range layout.Protected {
		for _, base := range [...]string{layout.GitDir, layout.CommonDir, dir} {
			if inside(base, p) {
				guards = m.guard(guards, base, p, "protected: git "+strings.TrimPrefix(p, base+"/"), gitStub(p))
				break
			}
		}
	}
	return layout, guards
}

// guardConfigured adds guards for what the configuration of a repository names
// as hooks, or as further configuration, in directories that commands can write
// to: a git on the host would execute it as it does .git/hooks.
func (r *resolver) guardConfigured(m *mounts, top string, layout workspace.GitLayout, guards []guard) []guard {
	if layout.CommonDir == "" {
		return guards
	}
	var global []string
	for _, home := range [...]string{r.home(), r.caller.home} {
		if home != "" {
			global = append(global, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"))
		}
	}
	hooks, includes := workspace.ConfiguredPaths(layout.CommonDir, global...)
	add := func(p, dir, what string) {
		switch {
		case p == "~" || strings.HasPrefix(p, "~/"):
			p = filepath.Join(r.home(), p[1:])
		case !filepath.IsAbs(p):
			p = filepath.Join(dir, p)
		}
		led, _, err := follow(p)
		if err != nil || !m.creatable(led) || led == top {
			if led == top {
				m.notes = append(m.notes, fmt.Sprintf("git: %s of %s is the work tree itself, which a command can write to", what, top))
			}
			return
		}
		guards = append(guards, guard{led, "protected: git " + what, stubs.Stub{Path: led, File: what == "include.path"}})
	}
	for _, p := range hooks {
		add(p, top, "core.hooksPath")
	}
	for _, p := range includes {
		add(p.Path, filepath.Dir(p.File), "include.path")
	}
	for _, p := range linkedHooks(filepath.Join(layout.CommonDir, "hooks")) {
		add(p, top, "hooks")
	}
	if p := filepath.Join(layout.CommonDir, "objects/info/alternates"); isFile(p) {
		guards = m.guard(guards, layout.CommonDir, p, "protected: git objects/info/alternates", stubs.Stub{Path: p, File: true})
	}
	return guards
}

// linkedHooks are the hooks that are symlinks: git executes what they lead to,
// which often lies in the work tree.
func linkedHooks(dir string) (list []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 && len(list) < maxHooks {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// maxHooks is more than git knows hooks.
const maxHooks = 100

func isFile(p string) bool {
	info, err := os.Lstat(p)
	return err == nil && info.Mode().IsRegular()
}

// gitOrigin says what a git directory that is shown is.
func gitOrigin(layout workspace.GitLayout, dir string) string {
	switch dir {
	case layout.GitDir:
		return gitPrefix + "directory of the " + layout.Kind.String()
	case layout.CommonDir:
		return gitPrefix + "common directory"
	}
	return gitPrefix + "common directory, " + filepath.Base(dir)
}

// show adds a mount at its source's own path, unless the definition has put
// something there.
func (m *mounts) show(mount shared.Entry) {
	taken := func(have shared.Entry) bool { return have.Path == mount.Path }
	if !slices.ContainsFunc(m.spec.Table, taken) {
		m.spec.Table = append(m.spec.Table, mount)
	}
}

// cover is the mount that a path inside lies in, and the host's path of it.
func (m *mounts) cover(p string) (cover *shared.Entry, host string) {
	for i := range m.spec.Table {
		if have := &m.spec.Table[i]; inside(have.Path, p) && (cover == nil || len(have.Path) > len(cover.Path)) {
			cover = have
		}
	}
	if cover == nil || cover.Access == shared.Private {
		return cover, ""
	}
	return cover, cover.Source + strings.TrimPrefix(p, cover.Path)
}

// Origins of the mounts that nobody wrote down.
const (
	gitPrefix  = "git: "
	keptPrefix = "kept in place: "
)

// protect makes what the guards name read-only wherever a writable mount shows
// it, and keeps it in its place: a directory above it that could be renamed
// would take it along and leave the path free. What is mounted on cannot be
// renamed.
func (m *mounts) protect(guards []guard) error {
	// What lies in another guarded place comes after it, and needs no more.
	// Of two for one place the one with a stub counts: what is there may be
	// another command's, and gone in a moment.
	held := func(g guard) int { return min(len(g.stub.Path), 1) }
	guards = slices.Clone(guards) // they stay the caller's, who passes them on
	slices.SortStableFunc(guards, func(a, b guard) int {
		return cmp.Or(strings.Compare(a.path, b.path), held(b)-held(a))
	})
	guards = slices.CompactFunc(guards, func(a, b guard) bool { return a.path == b.path })
	writable := slices.DeleteFunc(slices.Clone(m.spec.Table), func(have shared.Entry) bool { return have.Access != shared.ReadWrite })
	for _, g := range guards {
		for _, have := range writable {
			switch {
			case inside(have.Source, g.path) && have.Source != g.path:
				m.guardIn(have, g)
			case inside(g.path, have.Source) && !strings.HasPrefix(have.Why, gitPrefix):
				return attributeError(have.Why, fmt.Sprintf("%s is never writable inside (%s)", have.Source, g.origin), "say read_only = true, or leave it out")
			}
		}
	}
	return nil
}

// guardIn guards what g names where the writable mount have shows it.
func (m *mounts) guardIn(have shared.Entry, g guard) {
	place := have.Path + strings.TrimPrefix(g.path, have.Source)
	if cover, at := m.cover(place); at != g.path || cover.Access != shared.ReadWrite || cover.Path == place {
		return // something else is there, or a git directory with guards of its own
	}
	m.keep(have, g.path, strings.TrimPrefix(g.origin, "protected: "))
	m.spec.Table = append(m.spec.Table, shared.Entry{Source: g.path, Path: place, Why: g.origin, Access: shared.ReadOnly})
	if g.stub.Path != "" {
		m.stubs = append(m.stubs, g.stub)
	}
}

// keep mounts each directory above p onto itself, as far up as the writable mount
// have shows it, so that none can be renamed.
func (m *mounts) keep(have shared.Entry, p, origin string) {
	for dir := filepath.Dir(p); dir != have.Source; dir = filepath.Dir(dir) {
		place := have.Path + strings.TrimPrefix(dir, have.Source)
		if cover, at := m.cover(place); at == dir && cover.Access == shared.ReadWrite && cover.Path != place {
			m.spec.Table = append(m.spec.Table, shared.Entry{Source: dir, Path: place, Access: shared.ReadWrite, Why: keptPrefix + origin})
		}
	}
}
