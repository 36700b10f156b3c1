// Package holder keeps what the commands of one session share while none of
// them runs: mount trees that are prepared once, overlays and a home directory.
//
// A holder is one process per session and user. It lives in a user and a mount
// namespace of its own, makes mount trees there by the kernel's mount calls, and
// starts inits over them when it is asked to, in namespaces of their own and with the
// descriptors that it is sent. An init mounts what it has for itself; see [Complete].
//
// Both ends are here: [Connect] for an engine, [Main] for the process, which is
// a program that called sandboxinit.Hook, executed again. The package uses the
// standard library and x/sys alone: it is part of the init's lean binary.
//
// # To find the way
//
// What is said is op.go and wire.go, over conn_linux.go. An engine's end: start_linux.go
// finds or starts the process, client_linux.go asks it. The process: main_linux.go begins it,
// server_linux.go serves clients and forks inits, by trees (thread_linux.go, made by
// tree_linux.go, believed by current_linux.go and watch_linux.go) and by groups that share namespaces
// (group_linux.go, whose mounts are put back by cover_linux.go). What is the session's,
// overlays and homes, is space_linux.go and overlay_linux.go; overlays that are one command's own are
// own_linux.go. An init's end is sandbox_linux.go. An init
// that does without a holder, for a command that shares nothing, is alone_linux.go.
//
// # What it holds
//
//   - There is one holder at a time for a directory: it has an exclusive lock on
//     a file there for its life. A kernel mount of an overlay that outlives its
//     holder for a moment is waited for (index=on makes the kernel refuse a second
//     mount of one upper directory).
//   - It ends when the connection of its last client does, whatever ended the
//     client, and a client's inits are killed when its connection ends. Inits
//     die with the thread that forked them, which lives as long as they do.
//   - A source is opened without following any symlink, and what was opened is
//     what is mounted: it cannot be swapped in between. So are mount points.
//   - The mounts of a tree are shared by those that use it, and devices can be used
//     through those of [Devices] alone.
//   - Inits have the descriptors that were sent for them, and of the capabilities that
//     the holder has in its namespace the two that [Complete] needs and gives up.
//   - A prepared tree is used again only if each of its sources and mount points is
//     still what it was: a file that was replaced is bound anew.
//   - Nothing grows with the number of commands: a few trees are kept, those last used.
//
// # Limits
//
// It needs Linux 5.12, user namespaces and a /proc. Mounts that the host makes
// after the holder has started are seen by the inits that are started after
// them, with the attributes of what they lie beneath, where the host's mounts are
// shared, as systemd makes them. What the host has unmounted stays in use until
// then. The lower directory of an overlay stays the one that it
// was first; the kernel leaves undefined what is seen when it is changed beneath.
package holder
