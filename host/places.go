//go:build unix

package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/host/view"
)

// reservedPlaces lists what sbxhost would run, or take for its user's word, if it were
// there the next time: no command must put it there.
func (h *Host) reservedPlaces(owner *facts.Owner) (list []view.Reserved) {
	add := func(dir, what string, names ...string) {
		if filepath.IsAbs(dir) {
			list = append(list, view.Reserved{Dir: dir, What: what, Names: names})
		}
	}
	for _, dir := range h.options.EnginePath {
		add(filepath.Dir(dir), "engines that are installed", filepath.Base(dir))
	}
	programs := []string{"sbxhost-init", "sbxhost-telemetry"}
	for _, name := range slices.Concat(h.EngineNames(), launch.Separate) {
		programs = append(programs, "sbxhost-engine-"+name)
	}
	add(h.options.EngineDir, "a program that runs sandboxes", programs...)
	if exe, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(exe); err == nil {
			exe = resolved
		}
		add(filepath.Dir(exe), "a program that runs sandboxes", programs...)
	}
	const config = "a configuration of yours"
	if dir, _ := h.caller.LookupEnv("XDG_CONFIG_HOME"); dir != "" {
		add(dir, config, "sbxhost")
	}
	if h.caller.Home != "" {
		add(filepath.Join(h.caller.Home, ".config"), config, "sbxhost")
	}
	// Another one may be in force for this command.
	if path, _ := h.caller.LookupEnv("SBXHOST_CONFIG"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(h.options.Dir, path)
		}
		add(filepath.Dir(path), config, filepath.Base(path))
	}
	if owner != nil && owner.Home != "" {
		add(owner.Home, "the sandboxes of the workspace's owner", ".config/sbxhost", ".local/state/sbxhost", ".local/share/sbxhost/engines")
	}
	path, _ := h.caller.LookupEnv("PATH")
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			list = append(list, view.Reserved{Dir: dir, What: "a program that runs outside of sandboxes", Names: programsRun(), OnlyInBinds: true})
		}
	}
	return list
}

// programsRun are the programs that this one looks for in PATH, and its own name:
// who finds another there the next time runs that.
func programsRun() []string {
	names := []string{"git", "gh", "sbxhost"}
	if exe, err := os.Executable(); err == nil && !slices.Contains(names, filepath.Base(exe)) {
		names = append(names, filepath.Base(exe))
	}
	return names
}

// trustedPaths lists what sbxhost obeys or runs what lies at, as it is spelled. A
// command that replaces a symlink on the way leads the next sbxhost to what it has
// made itself. Of these, engines are those where engines come from that are not
// installed with this program.
func (h *Host) trustedPaths(records []facts.Record) (all, engines []view.Trusted) {
	for _, p := range h.options.Protected {
		all = append(all, view.Trusted{Path: p, What: "the configuration in force"})
	}
	for _, record := range records {
		all = append(all, view.Trusted{Path: record.Path, What: record.What})
	}
	if dir := h.caller.StateDir(); dir != "" {
		all = append(all, view.Trusted{Path: dir, What: "what is remembered about sandboxes"})
	}
	for _, dir := range h.options.EnginePath {
		engines = append(engines, view.Trusted{Path: dir, What: "engines that are installed"})
	}
	for _, name := range slices.Sorted(maps.Keys(h.options.Engines)) {
		source := h.engines.SourcePath(name)
		all = append(all, view.Trusted{Path: source, What: fmt.Sprintf("the source of engine %q", name)})
		if filepath.IsAbs(source) {
			engines = append(engines, view.Trusted{Path: source, What: "engine " + name})
		}
	}
	return all, engines
}
