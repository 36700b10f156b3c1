// Package holder keeps what the commands of one session share: prepared mount trees, overlays and a
// home directory.
//
// A holder is one process for each session and user, the child of an engine. It lives in a user and a mount namespace of
// its own, makes mount trees there with the kernel's mount calls, and starts inits over them on
// request, in namespaces of their own, with the descriptors that it receives. An init makes its own
// mounts; see [Make].
//
// Both ends are here: [Connect] for an engine, [Main] for the process, which is a program that
// called sandboxinit.Hook, executed again. Of other libraries, the package uses only x/sys: it is
// part of the init's lean binary.
//
// # The files
//
// op.go and wire.go have the messages. An engine's end: start_linux.go
// starts the process, client_linux.go sends requests. The process: main_linux.go begins it,
// server_linux.go serves the engine and forks inits, from trees (thread_linux.go, made by
// tree_linux.go, checked by current_linux.go and watch_linux.go) and groups that share namespaces
// (group_linux.go). cover_linux.go restores mounts that the host removes. space_linux.go and
// overlay_linux.go are the session's overlays and homes; own_linux.go is for overlays of one command.
// An init's end is sandbox_linux.go. standalone_linux.go is an init without a holder, for a command
// that shares nothing.
//
// # What it promises
//
//   - A directory has one holder at a time, with an exclusive lock on a file there for its life. If
//     a kernel mount of an overlay outlives its holder for a moment, the next holder waits
//     (index=on makes the kernel refuse a second mount of one upper directory).
//   - It ends with its engine's connection, and dies with the engine. Each init has a connection
//     to the engine, and dies with it. Inits also die with the thread that forked them, which lives
//     as long as they do.
//   - It opens a source without following any symlink, and mounts what it opened, so nobody can
//     swap it in between. The same is true for mount points.
//   - The users of a tree share its mounts, and can use devices only through those of [Devices].
//   - Inits have the descriptors that were sent for them. Of the holder's capabilities in its
//     namespace they have those of initCaps, until the sandbox is complete and its command has
//     namespaces of its own.
//   - It reuses a prepared tree only if each of its sources and mount points is unchanged: a
//     replaced file is bound again, also in sandboxes that wait for a command.
//   - Nothing grows with the number of commands: it keeps a few trees, the last used ones.
//
// # Limits
//
// It needs Linux 5.12, user namespaces and a /proc. Inits see mounts that the host made before
// their own start, with the attributes of the mount above them, if the host's mounts are shared, as
// systemd makes them. What the host has unmounted stays in use until then. The lower directory of
// an overlay never changes; the kernel leaves undefined what shows after a change beneath.
package holder
