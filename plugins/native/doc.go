// Package native is the engine that isolates commands with the kernel's own calls on Linux: no
// daemon, no image, nothing to install. It needs Linux 5.12 and user namespaces.
//
// # What a command gets
//
// Every command runs in user, pid, ipc, uts, mount and cgroup namespaces, and in its own network
// namespace unless the definition asks for the host's network. The commands of a session share a
// user namespace, and so do all commands without a session of this engine's process; each command
// has its own of all other kinds. It has no capabilities and an empty bounding set, cannot gain
// privileges, runs under the system call filter of package seccomp, and keeps the numeric user and
// group of its caller. Its host name is "localhost". Pid 1 is sbxhost's own init. If the kernel
// refuses a namespace, that is an error.
//
// Package mountplan plans the view: the minimal or the host's view, and the Spec's table over it.
// The engine opens a mount's source without following a symlink, and mounts what it opened; it
// makes mount points only in memory.
//
// # How it is made
//
// A holder (package holder) keeps what commands share: a tree of mounts for each plan, overlays,
// the home of a session. It forks each command's init into namespaces of its own, with a copy of
// the tree; the init makes the command's own mounts, pivots, and gives up its privileges. See
// ARCHITECTURE.md.
//
// # Limits of the promise
//
// Mounts are a snapshot of the start. A control group that this process may write to enforces
// limits of memory, processors and processes. Only the engine bwrap can use groups that systemd
// makes for a launcher: this engine has none.
//
// The options loosen or tighten the filter: ptrace permits debuggers, unix_sockets = false closes
// unix sockets altogether, nested_userns permits user namespaces inside.
package native
