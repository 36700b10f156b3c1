//go:build unix

package host

import (
	"slices"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
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
	w := h.writable()
	return w.First(list)
}

// writable is where commands can write. With EnginesOnly there is no workspace, but the engines
// that are asked are those that commands would be run by.
func (h *Host) writable() (w facts.Writable) {
	root := h.machine.Workspace.Root()
	w = facts.Writable{Roots: facts.OnlyWritable(h.machine.Workspace), Outer: h.machine.Outer(), Sessions: h.machine.SessionBases, Reviews: h.machine.ReviewBases}
	if o := &h.options; o.EnginesOnly {
		w.Roots, w.Sessions = h.caller.WritableRoots(o.Workspace.Root, o.Dir, o.Workspace.Writable), session.Bases("", h.caller.LookupEnv, "")
		if i := slices.IndexFunc(w.Roots, func(r workspace.RootDir) bool { return r.Field == "root" }); i >= 0 {
			root = w.Roots[i].Path
			if w.Reviews = []string{review.Base(root)}; o.Workspace.Root == "" {
				w.Outer = facts.OuterRoots(root, h.caller.Home)
			}
		}
	}
	binds := append(h.pool.ImplicitBinds(), h.options.OtherBinds...)
	for _, name := range h.SandboxNames() {
		binds = append(binds, h.options.Sandboxes[name].BindPaths...)
	}
	w.Binds = h.machine.WritableBinds(root, binds)
	return w
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
	w := h.writable()
	for _, r := range w.Roots {
		dirs = append(dirs, r.Path)
	}
	return slices.Concat(dirs, w.Outer, w.Binds)
}

// droppedFromPath says which directories of the caller's PATH are left out since they lie in the
// workspace.
func (c *Cmd) droppedFromPath(environ []string, origins []EnvVar) []string {
	if !slices.Contains(origins, EnvVar{Name: "PATH", Origin: env.OriginBuiltin}) {
		return nil
	}
	return c.host.caller.DroppedFromPath(environ, c.host.writable().Roots)
}
