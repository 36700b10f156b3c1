// Package docker is the engine that runs commands in containers of a Docker daemon on this machine:
// for definitions that need another root file system, with other packages or versions of languages
// than the host has.
//
// # What a command gets
//
// A container of its own from the definition's image. Its pid 1 is sbxhost's own init, bound into
// the container. So a command ends, is signalled and reports its end as in every other engine, also
// in an image with a single program. The init fetches the command's control socket and its stdin,
// stdout and stderr over a unix socket in a private directory. The engine removes the socket before it passes anything, so the command never
// finds it. A command's environment and arguments are not in the container's configuration, which
// everybody with access to the daemon can read.
//
// The container has only the capabilities of cap_add, no way to gain privileges, Docker's default
// system call filter and package seccomp's in addition, an empty /sys except for its control group,
// a read-only root file system unless writable_root, private /tmp, /var/tmp, /dev/shm and home of
// limited size, no network or Docker's bridge, and the caller's user and group by number. The
// daemon's cgroups enforce its limits for the whole tree. It ignores the image's entry point, user,
// working directory, health check and variables; a volume that the image declares is private
// memory.
//
// # Ends
//
// The init ends with its connection to the engine, and the container with the init; the daemon
// removes it. An engine makes the daemon prune the containers with its label that nobody has started
// in ten minutes: a killed engine left them.
//
// # Limits of the promise
//
// The daemon must be on this machine and see its files, because the workspace is bound. It mounts by
// path: the init compares the mounts with what the engine has seen, which needs Linux 5.8, and
// otherwise starts no command. The engine leaves out other mounts of the host below a read-only
// mount. A mount's destination beneath another bind must exist. The pids limit leaves space for the
// init's own threads. Pulls belong to the daemon, with its network.
//
// Whoever may use a Docker daemon is root on its machine, unless the daemon is rootless. That is
// true for the caller of this engine, never for its commands.
package docker
