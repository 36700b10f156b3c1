//go:build unix

package host

import (
	"slices"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
)

// writableDir returns the directory above p that commands can write to, or "".
func (h *Host) writableDir(p string) string {
	w := h.writable()
	return w.Around(p)
}

// writable is where commands can write. With EnginesOnly there is no workspace, but its engines are
// those that would run commands.
func (h *Host) writable() (w facts.Writable) {
	ws := h.machine.Workspace
	w = facts.Writable{Outer: h.machine.Outer, Sessions: h.machine.SessionBases, Reviews: h.machine.ReviewBases}
	if o := &h.options; o.EnginesOnly {
		ws, w.Sessions = h.caller.Workspace(o.Workspace.Root, o.Dir, o.Workspace.Writable), session.Bases("", h.caller.LookupEnv, "")
		if ws.Root() != "" {
			w.Reviews = []string{review.Base(ws.Root())}
		}
		if o.Workspace.Root == "" {
			w.Outer = ws.Outer()
		}
	}
	w.Roots = facts.WritableRoots(ws)
	binds := append(h.pool.ImplicitBinds(), h.options.OtherBinds...)
	for _, name := range h.SandboxNames() {
		binds = append(binds, h.options.Sandboxes[name].BindPaths...)
	}
	w.Binds = h.machine.WritableBinds(ws.Root(), binds)
	return w
}

// WritableDirs returns the host directories that commands can write to with these Options: the
// workspace's, those around a default workspace, and writable binds. A program that writes a file
// at a user's path must not follow a symlink in one of them. The list omits invalid paths;
// Check and Start return their errors.
func WritableDirs(o Options) []string {
	o.EnginesOnly = true
	caller := callerOf(&o)
	h := &Host{options: o, caller: caller, hostParts: hostParts{machine: facts.OnlyCaller(caller)}}
	w := h.writable()
	return slices.Concat(w.Roots, w.Outer, w.Binds)
}
