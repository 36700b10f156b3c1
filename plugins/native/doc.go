// Package native is the engine that isolates commands by the kernel's own calls on Linux:
// no daemon, no image, nothing to install. It needs Linux 5.12 and user namespaces.
//
// # What a command gets
//
// Every command runs in user, pid, ipc, uts, mount and cgroup namespaces, and in a network
// namespace of its own unless the definition asks for the host's network. The user
// namespace is shared by the commands of a session, and by those without one of this
// engine's process; all others are each command's own. It has no capabilities and an
// empty bounding set, cannot gain privileges, runs under the system call filter of
// package seccomp, and keeps the numeric user and group of its caller. Its host name is
// "localhost". Pid 1 is sbxhost's own init. A namespace that the kernel refuses is an
// error, never left out.
//
// The view is what package mountplan says: the minimal or the host's view, and the Spec's
// table over it. A mount's source is opened without following a symlink, and what
// was opened is what is mounted; mount points are made in memory alone.
//
// # How it is made
//
// A holder (package holder) keeps what commands share: a tree of mounts for each plan,
// overlays, the home of a session. It forks each command's init into namespaces of its
// own, with a copy of the tree; the init mounts what the command has for itself, pivots,
// and gives up what it could do that with. See ARCHITECTURE.md.
//
// # Limits of the promise
//
// Mounts are a snapshot of the start. Limits of memory, processors and processes are
// held by a control group that this process may write to; the groups that systemd makes
// on request for a launcher are out of reach, since there is none: engine bwrap has them.
//
// Its options loosen or tighten the filter: ptrace lets debuggers work, unix_sockets =
// false closes unix sockets altogether, nested_userns lets user namespaces be made inside.
package native
