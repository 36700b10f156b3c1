// Package landlock is the engine for machines that give no namespaces: containers with a
// usual filter of system calls, runners of continuous integration, desktops that restrict user
// namespaces. Landlock and seccomp take no privilege.
//
// The init applies both on the thread that forks the command, and there is no launcher.
//
// What is shown is what package mountplan says, at the host's own paths, and nothing is mounted. Landlock
// grants, and takes nothing back beneath a path; so what is hidden inside of what is
// shown is held by granting the names beside it one by one, and what is protected inside of
// what is writable is not held. See docs/landlock.md for what else is not.
package landlock
