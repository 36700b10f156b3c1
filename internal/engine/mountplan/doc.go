// Package mountplan turns the table of a sandbox into an ordered list of mounts: what a Linux
// engine must mount, where, and in which order, so that nothing goes through a symlink and nothing
// hidden shows. It is the same for every engine that mounts; each engine executes the steps in its
// own way.
//
// Plan is pure, except for the tree of the host, which it reads without following a symlink; [Look]
// returns the real one.
//
// The files: the host's files (tree.go) and this machine's system (facts.go); what shows at a path
// inside (view.go); the steps for a table (table.go), each at the path that it leads to
// (settle.go), over those of the system (base.go), in one plan (plan.go), which is valid while the
// host does not change (draw.go); and for a holder the plan's two halves (halve.go). support.go says
// which overlays a session has here, and what a command's events say about them.
package mountplan
