// Package cgroup enforces the limits of a command's whole process tree with Linux control groups:
// memory, processor time, number of processes.
//
// [Look] finds what this process may use; [Host.Decide], which is pure, chooses the groups;
// [Decision.New] makes the group of one command. It prefers, in this order:
//
//   - cgroup v2 if this process may divide its own group, or the one above it: below a user's
//     systemd, in a delegated unit, or as root. The launcher begins in the group, which costs
//     nothing.
//   - cgroup v1 if this process may make groups beneath its own. It moves the running launcher with
//     all that it has forked. Each move takes some 4 ms in the kernel, for each controller and
//     process: some 15 ms for a command.
//   - The user's systemd, which puts the running launcher into a scope on a request over the user's
//     bus, if a session may not divide its group, as over ssh.
//
// # Promise
//
// A process that [Group.Add] or the clone flag has put into a group cannot leave it, nor can its
// children: a sandbox has no cgroup file system to write to. The use of a sandbox's launcher and
// init counts as the command's.
//
// A group is removed when its command has ended. Its owner holds a lock on it. So after an engine
// was killed, [Host.Sweep] of another one can find groups without an owner, end their processes and
// remove them.
//
// # Limits
//
// In cgroup v2 a group with processes of its own cannot be divided, and this package does not move
// other processes to change that: in a container with only a root group there is no place. It
// enables no controllers either: the owner of the tree above must do that.
//
// # Why its own code
//
// github.com/opencontainers/cgroups 0.1.0 adds 2 MB and 0.1 ms of initialisation to a program,
// github.com/containerd/cgroups/v3 3.1.3 adds 5.4 MB and 0.8 ms (Linux 6.18, amd64). Both move a
// process after its start, and neither finds a place that an ordinary user may divide, nor orphaned
// groups. The rest is to write five files.
package cgroup
