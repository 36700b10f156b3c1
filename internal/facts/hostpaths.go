//go:build unix

package facts

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/internal/view"
)

// HostPaths is what sbxhost itself obeys and runs.
type HostPaths struct {
	Configs      []string          // in force, as spelled
	TrustChecked []string          // further ones, of which sbxhost obeys only texts that a person has trusted
	EngineDir    string            // the directory of engines that were installed with sbxhost, if it is not sbxhost's
	Engines      []string          // names of engines
	Programs     []string          // executables that it may run outside of sandboxes
	Sources      map[string]string // paths of declared engines, by name
	Records      []view.HostPath   // of its decisions
}

// All lists these paths, and the paths of files that sbxhost would run, or believe, if they existed
// at its next start: no command may make those. Relative paths begin at dir.
func (o *HostPaths) All(caller *Caller, owner *Owner, dir string) (list []view.HostPath, err error) {
	const inForce, remembered, program, config = "the configuration in force", "what is remembered about sandboxes", "a program that runs sandboxes", "a configuration of yours"
	add := func(kind view.HostPathKind, p, what string, names ...string) {
		if filepath.IsAbs(p) {
			list = append(list, view.HostPath{Path: p, Description: what, Kind: kind, Names: names, Attribute: "XDG_STATE_HOME"})
		}
	}
	for i, p := range slices.Concat(o.Configs, o.TrustChecked) {
		if _, err := os.Stat(p); err != nil || !filepath.IsAbs(p) {
			return nil, fmt.Errorf("protected: %q: it must be an absolute path that exists", p)
		}
		kind := view.HostConfig
		if i >= len(o.Configs) {
			kind = view.HostCheckedConfig
		}
		add(kind, p, inForce)
	}
	for _, p := range o.Programs {
		add(view.HostNames, filepath.Dir(p), program, filepath.Base(p))
	}
	programs := []string{"sbxhost-init", "sbx", "sbxhost-mcp", "nomad-driver-sbxhost"}
	for _, name := range o.Engines {
		programs = append(programs, "sbxhost-engine-"+name)
	}
	add(view.HostNames, o.EngineDir, program, programs...)
	inPath := []string{"git", "gh", "less", "sbxhost", "sbx", "sbxhost-mcp"}
	if exe, err := os.Executable(); err == nil {
		inPath = append(inPath, filepath.Base(exe))
		add(view.HostNames, filepath.Dir(cmp.Or(Follow(exe).End, exe)), program, programs...)
	}
	add(view.HostNames, caller.Getenv("XDG_CONFIG_HOME"), config, "sbxhost", "gh")
	if caller.Home != "" {
		add(view.HostNames, filepath.Join(caller.Home, ".config"), config, "sbxhost", "gh")
	}
	add(view.HostDir, caller.Getenv("GH_CONFIG_DIR"), config) // gh takes a planted token from it
	// It names the daemon that the docker engine asks. A definition may bind it.
	docker := filepath.Clean(cmp.Or(caller.Getenv("DOCKER_CONFIG"), filepath.Join(caller.Home, ".docker")))
	add(view.HostNames, filepath.Dir(docker), config, filepath.Base(docker))
	// Another configuration may be in force for this command.
	if path := caller.Getenv("SBXHOST_CONFIG"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		add(view.HostNames, filepath.Dir(path), config, filepath.Base(path))
	}
	if owner != nil && owner.Home != "" {
		add(view.HostNames, owner.Home, "the sandboxes of the workspace's owner", ".config/sbxhost", ".local/state/sbxhost")
		add(view.HostState, filepath.Join(owner.Home, ".local/state/sbxhost"), remembered)
	}
	add(view.HostState, caller.StateDir(), remembered)
	runtimeDir := "/run" // as serve.Dir has it
	if caller.UID != 0 {
		runtimeDir = fmt.Sprint("/run/user/", caller.UID)
	}
	if dir := cmp.Or(caller.Getenv("XDG_RUNTIME_DIR"), runtimeDir); filepath.IsAbs(dir) {
		list = append(list, view.HostPath{Path: filepath.Join(dir, "sbxhost"), Attribute: "XDG_RUNTIME_DIR", Description: "the server of sbx", Kind: view.HostState})
	}
	add(view.HostDir, caller.copies(), "configurations for commands")
	for _, entry := range filepath.SplitList(caller.Getenv("PATH")) {
		if !filepath.IsAbs(entry) {
			entry = filepath.Join(dir, entry)
		}
		// A command could put a program there for the next time.
		add(view.HostPathNames, entry, "a program that runs outside of sandboxes", inPath...)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Sources)) {
		add(view.HostDir, o.Sources[name], fmt.Sprintf("engine %q", name))
	}
	return append(list, o.Records...), nil
}
