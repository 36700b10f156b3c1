// Package docker is the engine that runs commands in containers of a Docker
// daemon, or Podman's, on this machine: for definitions that need another root
// file system, with other packages or other versions of languages than the host has.
//
// # What a command gets
//
// A container of its own from the definition's image, or one that commands share
// where the definition says reuse. Its pid 1 is sbxhost's own init, bound into the
// container, so that a command ends, is signalled and reports its end as in every
// other engine, also in an image that holds nothing but one program. The init
// fetches the command's control socket and its very stdin, stdout and stderr
// over a unix socket in a private directory. The engine removes the socket before it
// hands anything over: the command never finds it. Neither the environment nor
// the arguments of a command are part of the container's configuration, which
// anybody with access to the daemon can read.
//
// The container has no capabilities but those of cap_add, no way to gain
// privileges, Docker's default system call filter and package seccomp's on top of
// it, an empty /sys but for its control group, a read-only root file system
// unless writable_root, private and size-capped /tmp, /var/tmp, /dev/shm and
// home, no network or Docker's bridge, and the caller's user and group by number. Its
// limits are those of the daemon's cgroups, which hold for the whole tree. The
// image's entry point, user, working directory, health check and variables do
// not count; a volume that the image declares is private memory.
//
// # Ends
//
// The init ends with its connection to the engine, and the container with the
// init; the daemon removes it. What an engine that was killed had made and not
// yet started is found by its label and removed by the next engine. With reuse in
// a named session, a container outlives the engine and ends with a file of the
// session's; the command that an engine has started in it ends with that engine.
//
// # Limits of the promise
//
// The daemon must be on this machine and see its files: the workspace is bound.
// Bind sources are handed over by path. Below a read-only mount, other mounts of
// the host are left out. A mount's destination beneath another bind must exist and is checked for
// symlinks; a command that runs at the same moment in the same writable directory
// can race the check. The pids limit leaves room for the init's own threads.
// Commands that share a container by reuse share its processes, too: one of them
// can signal another, and its init. Builds and pulls are the daemon's, with the
// network and the isolation that it gives them.
//
// Who may use a Docker daemon is root on its machine, unless the daemon is
// rootless. That holds for the caller of this engine, never for its commands.
package docker
