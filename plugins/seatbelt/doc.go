// Package seatbelt is the engine that isolates commands with the sandbox of
// macOS, /usr/bin/sandbox-exec.
//
// # What a command gets
//
// A profile, made for this one command, that denies by default: see base.sb for
// what every command may do and why, minimal.sb and host.sb for the two views of
// the file system, network.sb for the host's network. On top of those come the
// mounts of the Spec at their own paths, then what the Spec protects and denies.
// Paths are parameters of the profile and never its text; their spellings become
// regular expressions whose alphabet cannot leave their literal.
//
// The command has a session and a process group of its own, an exact
// environment, and a private temporary directory, which is its TMPDIR and is
// removed when it ends. It can send signals to, and look at, processes of the
// same sandbox alone; it cannot reach launchd, LaunchServices, Apple events, the
// keychain, the clipboard or another program's preferences, for services are
// allowed by name.
//
// # How it departs from an engine with mounts
//
//   - Paths are the host's: a destination that differs from its source is
//     refused by the features, as are tmpfs mounts. An overlay becomes read-only
//     where it may, with an event.
//   - The private home cannot lie over the real one. The real one is hidden but
//     for the mounts in it; a private directory takes its place in HOME, with
//     links to those mounts; plans say so. It lasts as long as the session's
//     scratch directory, and as long as the command where there is none.
//   - /tmp is the machine's and hidden. Programs that insist on it fail.
//   - Without the network there is no loopback either: it is the host's. Names and
//     addresses of interfaces can be listed nonetheless.
//   - A list of names is held by a proxy in the engine's process, at a port of the
//     host's loopback that the profile of this one command opens, with a password,
//     since other programs of the machine find the port, too. Neither mDNSResponder
//     nor trustd can be asked: both make connections of their own.
//   - Unix sockets can be made and connected to in the temporary directory and
//     the private home alone, since a path does not tell whose socket it is.
//   - Hard links and clones of files cannot be made: another name would carry a
//     file out of the reach of rules that go by path. cp and git do without.
//   - A hidden or protected path also is in another case and in other spellings of
//     Unicode.
//   - Set-user-id programs, ps and crontab among them, cannot be executed.
//
// # Limits of the promise
//
// macOS has no pid namespace: a process that leaves the command's process group
// survives it, still confined. It has no cgroups, and no limit of a Spec but the
// timeout is held. sandbox-exec gets the environment of its command, since it
// has no other way to pass it on; variables that the system's loader or allocator
// would obey there are refused. Its own failures are exit statuses 65 and 71,
// which a command can have, too: Open therefore tries each new profile, and a
// command that the sandbox could not execute is looked up first.
//
// An engine process that is killed leaves its commands running, since macOS has no
// signal for a parent's death, and leaves their directories: in the session's, which
// its host removes, or with no session in the system's temporary directory.
//
// The package was written without a Mac. What macOS does is modelled (the files
// sbpl_*_test.go), and the profiles are tested against the model; on a Mac
// the same tests run for real. docs/seatbelt.md says what was run where.
package seatbelt
