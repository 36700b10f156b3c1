//go:build unix

package host

import (
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

// writableDir is the directory with p that commands can write to, or "".
func (h *Host) writableDir(p string) string {
	_, dir := h.commandsWrite([]string{p})
	return dir
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
	h.mu.Lock()
	binds := slices.Clone(h.lateBinds)
	h.mu.Unlock()
	for _, name := range h.SandboxNames() {
		binds = append(binds, h.options.Sandboxes[name].BindPaths...)
	}
	for _, b := range binds {
		if !b.Writable || !filepath.IsAbs(b.Host) && b.Host != "~" && !strings.HasPrefix(b.Host, "~/") {
			continue // what is relative lies in the workspace
		}
		if dir, err := filepath.EvalSymlinks(view.Absolute(home, "/", b.Host)); err == nil && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
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
	h := &Host{options: o, caller: caller, running: running{machine: onlyCaller(caller)}}
	for _, r := range h.writableRoots() {
		dirs = append(dirs, r.Path)
		if o.Workspace.Root == "" && r.Field == "root" {
			dirs = append(dirs, facts.OuterRoots(r.Path, h.caller.Home)...)
		}
	}
	return append(dirs, h.writableBinds()...)
}
