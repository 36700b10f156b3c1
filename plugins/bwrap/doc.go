// Package bwrap is the engine that isolates commands with bubblewrap on Linux:
// no daemon, no image, no privilege, and a few milliseconds a command.
//
// # What a command gets
//
// Every command runs in user, pid, ipc, uts, mount and cgroup namespaces of its
// own, and in a network namespace of its own unless the definition asks for
// the host's network. It has no capabilities and an empty bounding set, cannot
// gain privileges, cannot make user namespaces, runs under the system call filter
// of package seccomp, and keeps the numeric user and group of its caller
// (supplementary groups are not mapped). Its host name is "localhost". Pid 1 is sbxhost's own init. A namespace that the kernel refuses
// is an error, never left out.
//
// With a list of names or ports the engine's process has a gate for each command (package
// gated). It owns the user namespace that bubblewrap makes, and so may give the command's
// loopback the addresses that stand for names, and bind there. /etc/resolv.conf and /etc/hosts
// are then texts of their own.
//
// The minimal view holds /usr and its companions (/bin, /lib, ...), /opt and
// /nix/store read-only, a list of harmless entries of /etc (see package mountplan: no
// shadow, no keys, no machine id, nothing where tools keep credentials), a fresh
// /proc and /dev, private /tmp and /dev/shm, an empty /run, and a private home
// where the Spec names one. /var/tmp is a link to /tmp, or private, too, where
// something is mounted in it. Everything else, the root directory included, is
// read-only. The host view is the host's tree read-only with /proc, /dev, /dev/shm,
// /tmp, /var/tmp, /run and the home directory replaced in the same way; what can be connected to
// in it (sockets outside of those) is the host's duty to hide.
//
// Small files of /etc are copied at the start of a command, which costs a third of
// a mount; larger ones and directories are bound. Each private file system is capped
// at Limits.TempSize or, without one, at 4 GiB or a quarter of the machine's
// memory, whichever is less; what lies there counts as the command's memory, too.
//
// What is hidden or protected from a command stays so for the next one: each
// directory between a writable entry and one in it is bound onto itself, so that it
// can be neither renamed nor removed. Renames and hard links from one such directory to another
// fail with EXDEV, as between file systems.
//
// # Sessions
//
// This engine is plain: one list of mounts, one command line, the init. Where the Spec
// has a session directory, a directory in it, of the user whom commands run as alone, is
// bound as the home, and goes with the session. No size can be held there: a required
// Limits.TempSize makes the home each command's own, in memory, and events and plans
// say so; with best effort they say that it is not held. Without a session each command's
// home is its own.
//
// There are no overlays, which take the engine native: they are read-only where the
// Spec allows that, and told of, else refused.
//
// bubblewrap reads the table of all mounts again for each that it makes: a sandbox of
// more than 1,500 would take seconds a command, and is refused.
//
// Three options loosen or tighten the filter: ptrace lets debuggers work,
// unix_sockets = false closes unix sockets altogether, nested_userns lets user
// namespaces be made inside. Mounts that the sandbox is made of stay locked in those, and a
// caller who is root cannot map uid 0 into them. 32-bit programs are killed.
//
// # Limits of the promise
//
// Mounts are a snapshot of the start. A mount's destination is checked for
// symlinks that the command could have planted, and must exist already where
// it lies beneath a directory of the host. Sources are opened without following one
// and handed over by descriptor. Another
// command that runs at the same moment on the same writable directory can still lead
// bubblewrap astray, which before 0.12 follows symlinks: the init compares the table of
// mounts with the plan before it takes a command, and refuses.
//
// Memory, processor time and processes of a command are held by control groups
// where this machine lets the engine have them (package cgroup). Where it does
// not, Open refuses such a limit, unless best effort is asked for: then
// rlimits approximate memory and processes, and each event says so.
//
// bubblewrap 0.10.0 or later is needed, or an older one to which a distribution has added --bind-fd, as Debian 12
// has to its 0.8.0. It must not be setuid: a setuid one
// refuses to cap temporary file systems, and the kernel must allow user
// namespaces in any case.
package bwrap
