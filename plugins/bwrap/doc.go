// Package bwrap is the engine that isolates commands with bubblewrap on Linux: no daemon, no image,
// no privilege, and a few milliseconds for each command.
//
// # What a command gets
//
// Every command runs in user, pid, ipc, uts, mount and cgroup namespaces of its own, and in its own
// network namespace unless the definition asks for the host's network. It has no capabilities and
// an empty bounding set, cannot gain privileges, cannot make user namespaces, runs under the system
// call filter of package seccomp, and keeps the numeric user and group of its caller (supplementary
// groups are not mapped). Its host name is "localhost". Pid 1 is sbxhost's own init. If the kernel
// refuses a namespace, that is an error.
//
// With a list of names or ports the engine's process has a gate for each command (package gated).
// It owns the user namespace that bubblewrap makes, so it may give the command's loopback addresses
// that stand for names, and bind there. /etc/resolv.conf and /etc/hosts are then special texts.
//
// The minimal view has /usr and its companions (/bin, /lib, ...), /opt and /nix/store read-only, a
// list of harmless entries of /etc (see package mountplan: no shadow, no keys, no machine id, no
// credentials of tools), a fresh /proc and /dev, private /tmp and /dev/shm, an empty /run, and the
// private home of the Spec. /var/tmp is a link to /tmp, or also private if something is mounted in
// it. Everything else is read-only, with the root directory. The host view is the host's tree
// read-only with /proc, /dev, /dev/shm, /tmp, /var/tmp, /run and the home directory replaced in the
// same way; the host must hide sockets elsewhere in it.
//
// Small files of /etc are copied at the start of a command, which costs a third of a mount; larger
// ones and directories are bound. The size of each private file system is Limits.TempSize or,
// without one, 4 GiB or a quarter of the machine's memory, whichever is less. Its contents count as
// the command's memory too.
//
// What is hidden or protected from a command stays so for the next one: each directory between a
// writable entry and one in it is bound onto itself, so no command can rename or remove it. Renames
// and hard links from one such directory to another fail with EXDEV, as between file systems.
//
// # Sessions
//
// This engine is simple: one list of mounts, one command line, the init. It keeps nothing for a
// session: each command has its own home in memory, as events and plans report, unless the Spec
// shows a directory there.
//
// Only the engine native has overlays: here they are read-only if the Spec permits that, with an
// event, else refused.
//
// bubblewrap reads the table of all mounts again for each mount: a sandbox of more than 1,500 would
// take seconds for each command, so it is refused.
//
// Three options loosen or tighten the filter: ptrace permits debuggers, unix_sockets = false closes
// unix sockets altogether, nested_userns permits user namespaces inside. The sandbox's mounts stay
// locked in those, and a root caller cannot map uid 0 into them. The kernel kills 32-bit programs.
//
// # Limits of the promise
//
// Mounts are a snapshot of the start. The engine checks a mount's destination for symlinks of the
// command, and it must exist if it is beneath a directory of the host. The engine opens sources
// without following a symlink, and passes descriptors. Another command that runs at the same moment
// in the same writable directory can still lead bubblewrap astray, which follows symlinks before
// 0.12: the init compares the table of mounts with the plan before it accepts a command, and
// refuses.
//
// Control groups enforce memory, processor time and processes of a command if this machine permits
// the engine to use them (package cgroup). Otherwise Open refuses such a limit, except with best
// effort: then rlimits approximate memory and processes, and each event says so.
//
// The engine needs bubblewrap 0.10.0, or an older one to which a distribution has added --bind-fd,
// such as Debian 12's 0.8.0. It must not be setuid: a setuid one refuses to limit temporary file
// systems, and the kernel must permit user namespaces in any case.
package bwrap
