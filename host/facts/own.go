//go:build unix

package facts

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/host/view"
)

// Own is what sbxhost obeys and runs itself.
type Own struct {
	Configs   []string          // in force, as they are spelled
	EngineDir string            // the one of engines that were installed with it, where that is not its own
	Engines   []string          // names of engines
	Sources   map[string]string // paths of those that are declared, by name
}

// Reserved lists what sbxhost would run, or take for its user's word, if it were
// there the next time: no command must put it there. Relative paths begin at dir.
func (o *Own) Reserved(caller *Caller, owner *Owner, dir string) (list []view.Reserved) {
	add := func(dir, what string, names ...string) {
		if filepath.IsAbs(dir) {
			list = append(list, view.Reserved{Dir: dir, What: what, Names: names})
		}
	}
	programs := []string{"sbxhost-init", "sbxhost-telemetry"}
	for _, name := range o.Engines {
		programs = append(programs, "sbxhost-engine-"+name)
	}
	add(o.EngineDir, "a program that runs sandboxes", programs...)
	if exe, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(exe); err == nil {
			exe = resolved
		}
		add(filepath.Dir(exe), "a program that runs sandboxes", programs...)
	}
	const config = "a configuration of yours"
	if dir, _ := caller.LookupEnv("XDG_CONFIG_HOME"); dir != "" {
		add(dir, config, "sbxhost")
	}
	if caller.Home != "" {
		add(filepath.Join(caller.Home, ".config"), config, "sbxhost")
	}
	// Another one may be in force for this command.
	if path, _ := caller.LookupEnv("SBXHOST_CONFIG"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		add(filepath.Dir(path), config, filepath.Base(path))
	}
	if owner != nil && owner.Home != "" {
		add(owner.Home, "the sandboxes of the workspace's owner", ".config/sbxhost", ".local/state/sbxhost")
	}
	path, _ := caller.LookupEnv("PATH")
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

// Trusted lists what sbxhost obeys or runs what lies at, as it is spelled. A
// command that replaces a symlink on the way leads the next sbxhost to what it has
// made itself. Of these, engines are those where engines come from that are not
// installed with this program.
func (o *Own) Trusted(caller *Caller, records []Record) (all, engines []view.Trusted) {
	for _, p := range o.Configs {
		all = append(all, view.Trusted{Path: p, What: "the configuration in force"})
	}
	for _, record := range records {
		all = append(all, view.Trusted{Path: record.Path, What: record.What})
	}
	if dir := caller.StateDir(); dir != "" {
		all = append(all, view.Trusted{Path: dir, What: "what is remembered about sandboxes"})
	}
	for _, name := range slices.Sorted(maps.Keys(o.Sources)) {
		source := o.Sources[name]
		all = append(all, view.Trusted{Path: source, What: fmt.Sprintf("the source of engine %q", name)})
		if filepath.IsAbs(source) {
			engines = append(engines, view.Trusted{Path: source, What: "engine " + name})
		}
	}
	return all, engines
}
