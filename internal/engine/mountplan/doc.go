// Package mountplan turns the table of a sandbox into an ordered list of mounts: what
// a Linux engine has to mount, where, and in which order, so that nothing goes
// through a symlink and nothing hidden shows. It is the same for every engine that
// mounts; how a step is carried out is the engine's own matter.
//
// Plan is pure but for the tree of the host that it is given, which it looks at without
// following a symlink; [Look] gives the real one.
//
// To find the way: the host's files (tree.go) and what this machine has of a system (facts.go);
// what shows at a path inside (view.go); the steps that a table asks for (table.go), each at the
// place that it leads to (settle.go), over those of the system (base.go), in one plan (plan.go),
// which holds for as long as the host is as it was (draw.go); and for a holder the plan's two
// halves (halve.go). What a session has here, and what a command is told of it, is held.go.
package mountplan
