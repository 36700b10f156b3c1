// Package landlock is the engine for machines without namespaces: containers with a usual filter of
// system calls, CI runners, desktops that restrict user namespaces. Landlock and seccomp need no
// privilege.
//
// The init applies both on the thread that forks the command. There is no launcher.
//
// Commands see what package mountplan says, at the host's own paths, and nothing is mounted.
// Landlock grants, and cannot take back beneath a path. So a hidden path inside a shown one is
// enforced by grants for all other names beside it, and a protected path inside a writable one is
// not enforced. docs/landlock.md lists what else is not.
package landlock
