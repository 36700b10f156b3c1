// Package mountplan turns the table of a sandbox into an ordered list of mounts: what
// a Linux engine has to mount, where, and in which order, so that nothing goes
// through a symlink and nothing hidden shows. It is the same for every engine that
// mounts; how a step is carried out is the engine's own matter.
//
// Plan is pure but for the tree of the host that it is given, which it looks at without
// following a symlink; [Look] gives the real one.
package mountplan
