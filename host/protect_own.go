package host

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
)

// own is what sbxhost would run, or take for its user's word, if it were there
// the next time: a command that may write to the directory it would lie in must
// not put it there.
type own struct {
	dir, what string
	names     []string
	// byBind says that it matters in what bind_paths shows alone: in a
	// workspace's own directories it is not looked for.
	byBind bool
}

// ownPlaces lists them for this caller.
func (h *Host) ownPlaces(owner *owner) (list []own) {
	add := func(dir, what string, names ...string) {
		if filepath.IsAbs(dir) {
			list = append(list, own{dir: dir, what: what, names: names})
		}
	}
	for _, dir := range h.options.EnginePath {
		add(filepath.Dir(dir), "engines that are installed", filepath.Base(dir))
	}
	programs := []string{"sbxhost-init", "sbxhost-telemetry"}
	for _, name := range slices.Concat(h.EngineNames(), separateEngines[:]) {
		programs = append(programs, enginePrefix+name)
	}
	add(h.options.EngineDir, "a program of sbxhost", programs...)
	if exe, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(exe); err == nil {
			exe = resolved
		}
		add(filepath.Dir(exe), "a program of sbxhost", programs...)
	}
	const config = "a configuration of yours"
	if dir, _ := h.caller.lookupEnv("XDG_CONFIG_HOME"); dir != "" {
		add(dir, config, "sbxhost")
	}
	if h.caller.home != "" {
		add(filepath.Join(h.caller.home, ".config"), config, "sbxhost")
	}
	// Another one may be in force for this command.
	if path, _ := h.caller.lookupEnv("SBXHOST_CONFIG"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(h.dir, path)
		}
		add(filepath.Dir(path), config, filepath.Base(path))
	}
	if owner != nil && owner.home != "" {
		add(owner.home, "sbxhost of the workspace's owner", ".config/sbxhost", ".local/state/sbxhost", ".local/share/sbxhost/engines")
	}
	path, _ := h.caller.lookupEnv("PATH")
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			list = append(list, own{dir, "a program that sbxhost runs", []string{"git", "gh"}, true})
		}
	}
	return list
}

// An enginePlace is where this caller's engines come from that are not installed
// with this program.
type enginePlace struct {
	path string // a directory of Options.EnginePath, or the source of an entry of Options.Engines
	what string
}

// enginePlaces lists them.
func (h *Host) enginePlaces() (list []enginePlace) {
	for _, dir := range h.options.EnginePath {
		list = append(list, enginePlace{dir, "engines that are installed"})
	}
	for _, name := range slices.Sorted(maps.Keys(h.options.Engines)) {
		if source := h.declaredPath(h.options.Engines[name]); filepath.IsAbs(source) {
			list = append(list, enginePlace{source, "engine " + name})
		}
	}
	return list
}

// guardEngines adds guards for them, there or not, also where a mount shows no
// more than a part of one. That no engine is started which lies in the workspace is
// not enough: for the next run, this may be none. checkRelied refuses symlinks on
// the way.
func (r *resolver) guardEngines(m *mounts, guards []guard) []guard {
	for _, place := range r.engines {
		if ends, _, err := follow(place.path); err == nil && (m.writable(ends) || m.writesIn(ends)) {
			guards = append(guards, guard{ends, "protected: " + place.what, stubs.Stub{Path: ends}})
		}
	}
	return guards
}

// guardOwn adds guards for them in every directory that the definition makes
// writable, whether or not they exist.
func (r *resolver) guardOwn(m *mounts, guards []guard) []guard {
	var writable, binds []shared.Entry
	for _, have := range m.spec.Table {
		if have.Access != shared.ReadWrite {
			continue
		}
		writable = append(writable, have)
		if strings.HasPrefix(have.Why, "bind_paths") {
			binds = append(binds, have)
		}
	}
	for _, o := range r.own {
		among := writable
		if o.byBind {
			among = binds
		}
		if len(among) == 0 {
			continue
		}
		dir, _, err := follow(o.dir)
		if err != nil {
			continue
		}
		for _, name := range o.names {
			p := filepath.Join(dir, name)
			guards = m.guardAmong(among, guards, p, "protected: "+o.what)
		}
	}
	return guards
}

// guardAmong adds guards for p, whether or not it exists, in those mounts that
// show it.
func (m *mounts) guardAmong(among []shared.Entry, guards []guard, p, origin string) []guard {
	for _, have := range among {
		if have.Source != p && inside(have.Source, p) {
			guards = m.guard(guards, have.Source, p, origin, stubs.Stub{Path: p})
		}
	}
	return guards
}

// homeFiles are what programs of the host execute or obey, and lie in a home
// directory. They are protected there, whatever of it is bound, unless somebody
// has bound them themselves.
var homeFiles = [...]string{
	".gitconfig", ".config/git", ".ssh", ".config/fish", ".config/systemd", ".config/autostart", ".config/environment.d",
}

// guardHomes adds guards for them.
func (r *resolver) guardHomes(m *mounts, except []string, guards []guard) []guard {
	writable := slices.DeleteFunc(slices.Clone(m.spec.Table), func(have shared.Entry) bool { return have.Access != shared.ReadWrite })
	for _, home := range slices.Compact([]string{r.home(), r.caller.home}) {
		home, _, err := follow(home)
		if err != nil || home == "/" {
			continue
		}
		for _, name := range homeFiles {
			p := filepath.Join(home, name)
			asked := func(have shared.Entry) bool { return inside(p, have.Source) }
			if !slices.Contains(except, name) && !slices.ContainsFunc(writable, asked) {
				guards = m.guardAmong(writable, guards, p, "protected: by default, "+name)
			}
		}
	}
	return guards
}
