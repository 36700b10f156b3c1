package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// enginePrefix begins the name of an engine's executable.
const enginePrefix = "sbxhost-engine-"

// EnginePath gives the directories in which an installed engine is found by its
// name, in order: those of SBXHOST_ENGINE_PATH, the user's own below
// XDG_DATA_HOME (else ~/.local/share), and the system's. lookup nil means
// os.LookupEnv.
//
// An element that is not absolute is an error: it would name a directory of
// whatever workspace is the current one.
func EnginePath(lookup func(string) (string, bool)) ([]string, error) {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	var dirs []string
	if list, _ := lookup("SBXHOST_ENGINE_PATH"); list != "" {
		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) {
				return nil, fmt.Errorf("SBXHOST_ENGINE_PATH: %q is not an absolute path; write it out", dir)
			}
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	if data, _ := lookup("XDG_DATA_HOME"); filepath.IsAbs(data) { // as its specification has it, a relative one is ignored
		dirs = append(dirs, filepath.Join(data, "sbxhost", "engines"))
	} else if home, _ := lookup("HOME"); filepath.IsAbs(home) {
		dirs = append(dirs, filepath.Join(home, ".local", "share", "sbxhost", "engines"))
	}
	return append(dirs, "/usr/local/lib/sbxhost/engines"), nil
}

// InstalledEngines lists the engines in the directories of dirs by name, with
// the path of the first of that name. What has no valid name is no engine;
// whether one is safe to run is found out when it is.
func InstalledEngines(dirs []string) map[string]string {
	found := map[string]string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, ok := strings.CutPrefix(e.Name(), enginePrefix)
			if _, have := found[name]; ok && !have && name != "" && !e.IsDir() {
				found[name] = filepath.Join(dir, e.Name())
			}
		}
	}
	return found
}

// installedEngine looks for an engine in Options.EnginePath. Nothing that is
// found may come from where commands can write, or others can.
func (h *Host) installedEngine(name string) (path string, err error) {
	for _, dir := range h.options.EnginePath {
		path := filepath.Join(dir, enginePrefix+name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		resolved, err := checkInstalled(path)
		if err != nil {
			return "", &EngineError{Engine: name, Source: path, Err: err}
		}
		if root, ok := h.inWorkspace(dir, resolved); ok {
			return "", &EngineError{Engine: name, Source: path, Err: fmt.Errorf("lies in the workspace (%s), where a command could have put it; install it elsewhere", root)}
		}
		return resolved, nil
	}
	return "", fs.ErrNotExist
}

// inWorkspace reports whether one of paths lies in a writable root.
func (h *Host) inWorkspace(paths ...string) (root string, ok bool) {
	for _, r := range h.resolver.ws.Roots() {
		for _, p := range paths {
			if r.Writable && (inside(r.Path, p) || inside(r.Declared, p)) {
				return r.Path, true
			}
		}
	}
	return "", false
}

// checkInstalled is checkExecutable for a program that was found or named, not
// installed with this one: every directory above it counts as well, since who
// can rename one of them can replace the program.
func checkInstalled(path string) (string, error) {
	resolved, err := checkExecutable(path)
	if err != nil {
		return "", err
	}
	for dir := filepath.Dir(resolved); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return "", err
		}
		if err := sandboxinit.CheckDirectory(dir, info); err != nil {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return resolved, nil
		}
	}
}

// foreignNames are the names of engines that are neither built in, declared nor
// injected but installed.
func (h *Host) foreignNames() []string {
	var names []string
	for name := range InstalledEngines(h.options.EnginePath) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
