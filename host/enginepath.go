package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/workspace"
)

// enginePrefix begins the name of an engine's executable.
const enginePrefix = "sbxhost-engine-"

// EnginePath gives the directories in which an installed engine is found by its
// name, in order: those of SBXHOST_ENGINE_PATH, the user's own below
// XDG_DATA_HOME (else ~/.local/share), and the system's.
//
// An element that is not absolute is an error: it would name a directory of
// whatever workspace is the current one.
func EnginePath(lookup func(string) (string, bool)) ([]string, error) {
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

// ValidEngineName reports whether an engine can have that name: up to 64 letters,
// digits, -, _ and ., the first of them a letter or digit.
func ValidEngineName(name string) bool {
	if len(name) == 0 || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}

// InstalledEngines lists the engines in the directories of dirs by name, with
// the path of the first of that name. What has no valid name is no engine, nor
// is what is called as engineName calls others; whether one is safe to run is
// found out when it is.
func InstalledEngines(dirs []string) map[string]string {
	found := map[string]string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, ok := strings.CutPrefix(e.Name(), enginePrefix)
			if _, have := found[name]; ok && !have && ValidEngineName(name) && !isAuto(name) && engineName(name) == name && !e.IsDir() {
				found[name] = filepath.Join(dir, e.Name())
			}
		}
	}
	return found
}

// installedEngine looks for an engine in Options.EnginePath.
func (h *Host) installedEngine(name string) (path string, err error) {
	for _, dir := range h.options.EnginePath {
		path := filepath.Join(dir, enginePrefix+name)
		if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue // a directory holds the place of a program that is not there
		}
		resolved, err := h.checkFound(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("leads to nothing (%v); remove it, or install the engine again", err)
		}
		if err != nil {
			return "", &EngineError{Engine: name, Source: path, Err: err}
		}
		return resolved, nil
	}
	return "", fs.ErrNotExist
}

// checkFound resolves the path of an engine that was found or declared, not
// installed with this program. Neither that path, nor what it leads through, nor
// its end may lie where commands can write, or be what others can replace.
func (h *Host) checkFound(path string) (resolved string, err error) {
	return hostpath.CheckProgram(path, func(p string) string {
		_, dir := h.commandsWrite([]string{p})
		return dir
	})
}

// commandsWrite gives the first of some paths of the host that lies in a directory
// that commands can write to, and that directory: a root of the workspace, what a
// definition binds, or the files of sessions. p is "" where none does.
func (h *Host) commandsWrite(list []string) (p, dir string) {
	bases := h.machine.SessionBases
	if h.options.EnginesOnly {
		bases = session.Bases("", h.caller.LookupEnv, "")
	}
	roots := h.writableRoots()
	binds := h.writableBinds()
	for _, p := range list {
		for _, r := range roots {
			if paths.Inside(r.Path, p) || paths.Inside(r.Declared, p) {
				return p, "the workspace (" + hostpath.Quote(r.Path) + ")"
			}
		}
		for _, bind := range binds {
			if paths.Inside(bind, p) {
				return p, "what is bound writable (" + hostpath.Quote(bind) + ")"
			}
		}
		for _, base := range bases {
			if paths.Inside(base, p) {
				return p, "the files of sessions (" + hostpath.Quote(base) + ")"
			}
		}
	}
	return "", ""
}

// writableRoots are the roots of the workspace that commands can write to. With
// EnginesOnly there is none, but the engines that are asked are those that
// commands would be run by.
func (h *Host) writableRoots() []workspace.RootDir {
	ws := h.machine.Workspace
	if h.options.EnginesOnly {
		o := h.options.Workspace
		root := o.Root
		if root == "" {
			root, _ = workspace.Discover(h.options.Dir, h.caller.Home)
		}
		// What is no workspace has no commands either: a home directory, say.
		for _, writable := range [][]string{o.Writable, nil} {
			opened, err := workspace.New(workspace.Options{Root: root, Writable: writable, Home: h.caller.Home, LookupEnv: h.caller.LookupEnv})
			if err == nil {
				ws = opened
				break
			}
		}
	}
	return slices.DeleteFunc(ws.Roots(), func(r workspace.RootDir) bool { return !r.Writable })
}

// writableBinds are the directories of the host, without symlinks, that a definition
// binds writable.
func (h *Host) writableBinds() (dirs []string) {
	home := h.caller.Home
	if h.machine.Owner != nil {
		home = h.machine.Owner.Home
	}
	for _, name := range h.SandboxNames() {
		for _, b := range h.options.Sandboxes[name].BindPaths {
			if !b.Writable || !filepath.IsAbs(b.Host) && b.Host != "~" && !strings.HasPrefix(b.Host, "~/") {
				continue // what is relative lies in the workspace
			}
			if dir, err := filepath.EvalSymlinks(view.Absolute(home, "/", b.Host)); err == nil && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// WritableDirs gives the directories of the host that commands can write to by some
// Options: the workspace's, those around a workspace that is not named, and what is
// bound writable. A program that writes a file where its user says must not follow a
// symlink that lies in one of them. What cannot be found out is left out: New says
// what is wrong with it.
func WritableDirs(o Options) (dirs []string) {
	o.EnginesOnly = true
	caller := callerOf(&o)
	h := &Host{options: o, caller: caller, machine: onlyCaller(caller)}
	for _, r := range h.writableRoots() {
		dirs = append(dirs, r.Path)
		if o.Workspace.Root == "" && r.Field == "root" {
			dirs = append(dirs, facts.OuterRoots(r.Path, h.caller.Home)...)
		}
	}
	return append(dirs, h.writableBinds()...)
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
