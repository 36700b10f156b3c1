// Package cgroup holds the limits of a command's whole tree of processes by
// Linux control groups: memory, processor time, number of processes.
//
// [Look] finds what this process may use; [Host.Decide], which is pure, says
// which limits that holds; [Decision.New] makes the group of one command. In order
// of preference these are used:
//
//   - cgroup v2 where this process's own group, or the one above it, is its to
//     divide: below the systemd of a user, in a delegated unit, or as root. The launcher is born
//     in the group, which costs nothing.
//   - cgroup v1 where this process may make groups beneath its own. The launcher is moved once
//     it runs, with all that it has forked; each move takes some 4 ms in the kernel, and
//     there is one for each controller and process: some 15 ms a command.
//   - The user's systemd, which is asked over the user's bus to put the launcher into a scope
//     once it runs, where a session has a group that is not its own to divide, as over ssh.
//
// # Promise
//
// A process that [Group.Add] or the clone flag has put into a group cannot leave it,
// nor can what it starts: inside a sandbox there is no cgroup file system to write to.
// What the launcher and the init of a sandbox use counts as the command's.
//
// A group is removed when its command has ended. Its owner keeps a lock on it, so that after
// an engine that was killed another one can tell: [Host.Sweep] ends what is left in groups without an
// owner and removes them.
//
// # Limits
//
// A group that has processes of its own cannot be divided in cgroup v2, and this package
// moves nobody else's processes to change that: in a container
// whose only group is its root, there is no place. Controllers are not
// enabled here either: that is for who owns the tree above.
//
// # Why its own code
//
// github.com/opencontainers/cgroups 0.1.0 adds 2 MB and 0.1 ms of
// initialisation to a program, github.com/containerd/cgroups/v3 3.1.3 adds 5.4 MB and 0.8 ms (Linux
// 6.18, amd64). Both place a process after it has started, and neither looks for a place that an
// ordinary user may divide, nor tells an orphaned group from one in use. What is left is writing five files.
package cgroup
