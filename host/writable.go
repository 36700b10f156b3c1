//go:build unix

package host

import (
	"slices"

	"github.com/sbxhost/sbxhost/host/env"
	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/workspace"
)

// writableDir is the directory with p that commands can write to, or "".
func (h *Host) writableDir(p string) string {
	_, dir := h.commandsWrite([]string{p})
	return dir
}

// commandsWrite gives the first of some paths of the host that lies in a directory
// that commands can write to, and that directory. p is "" where none does.
func (h *Host) commandsWrite(list []string) (p, dir string) {
	w := facts.Writable{Roots: h.writableRoots(), Binds: h.writableBinds(), Sessions: h.machine.SessionBases}
	if h.options.EnginesOnly {
		w.Sessions = session.Bases("", h.caller.LookupEnv, "")
	}
	return w.First(list)
}

// writableRoots are the roots of the workspace that commands can write to. With
// EnginesOnly there is none, but the engines that are asked are those that
// commands would be run by.
func (h *Host) writableRoots() []workspace.RootDir {
	if o := &h.options; o.EnginesOnly {
		return h.caller.WritableRoots(o.Workspace.Root, o.Dir, o.Workspace.Writable)
	}
	return facts.OnlyWritable(h.machine.Workspace)
}

// writableBinds are the directories of the host that a definition binds writable.
func (h *Host) writableBinds() []string {
	binds := h.pool.LateBinds()
	for _, name := range h.SandboxNames() {
		binds = append(binds, h.options.Sandboxes[name].BindPaths...)
	}
	return h.machine.WritableBinds(binds)
}

// WritableDirs gives the directories of the host that commands can write to by some
// Options: the workspace's, those around a workspace that is not named, and what is
// bound writable. A program that writes a file where its user says must not follow a
// symlink that lies in one of them. What cannot be found out is left out: New says
// what is wrong with it.
func WritableDirs(o Options) (dirs []string) {
	o.EnginesOnly = true
	caller := callerOf(&o)
	h := &Host{options: o, caller: caller, running: running{machine: facts.OnlyCaller(caller)}}
	for _, r := range h.writableRoots() {
		dirs = append(dirs, r.Path)
		if o.Workspace.Root == "" && r.Field == "root" {
			dirs = append(dirs, facts.OuterRoots(r.Path, h.caller.Home)...)
		}
	}
	return append(dirs, h.writableBinds()...)
}

// droppedFromPath says which directories of the caller's PATH are left out since they lie in the
// workspace.
func (c *Cmd) droppedFromPath(environ []string, origins []EnvVar) []string {
	if !slices.Contains(origins, EnvVar{Name: "PATH", Origin: env.OriginBuiltin}) {
		return nil
	}
	return c.host.caller.DroppedFromPath(environ, c.host.writableRoots())
}
