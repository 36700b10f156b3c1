// Package seatbelt is the engine that isolates commands with the sandbox of macOS,
// /usr/bin/sandbox-exec.
//
// # What a command gets
//
// It gets a profile of its own that denies by default: see base.sb for what every command may do
// and why, minimal.sb and host.sb for the two views of the file system, network.sb for the host's
// network. Then come the mounts of the Spec at their own paths, then what the Spec protects and
// denies. Paths are parameters of the profile and never its text; their spellings become regular
// expressions whose alphabet cannot leave their literal.
//
// The command has a session and a process group of its own, an exact environment, and a private
// temporary directory, TMPDIR, which the engine removes at its end. It can signal, and look at,
// only processes of the same sandbox. It cannot reach launchd, LaunchServices, Apple events, the
// keychain, the clipboard or another program's preferences, because the profile allows services by
// name.
//
// # Differences from an engine with mounts
//
//   - Paths are the host's: the features refuse a destination that differs from its source, and
//     tmpfs mounts. An overlay becomes read-only, with an event, if the Spec permits that.
//   - The private home cannot lie over the real one. The real one is hidden, except for the mounts
//     in it; HOME is a private directory with links to those mounts, as plans say. It lasts as long
//     as the session's scratch directory, or as the command if there is none.
//   - /tmp belongs to the machine and is hidden. Programs that insist on it fail.
//   - Without the network there is no loopback either: it is the host's. Commands can still list
//     names and addresses of interfaces.
//   - For a list of names, the engine's process has a proxy, at a port of the host's loopback that
//     this command's profile opens, with a password, because other programs of the machine find the
//     port too. Commands can use neither mDNSResponder nor trustd: both make connections of their
//     own.
//   - Commands can make, and connect to, unix sockets only in the temporary directory and the
//     private home, because a path does not say who owns a socket.
//   - Commands cannot make hard links and clones of files: rules use paths, and another name would
//     evade them. cp and git do without.
//   - A hidden or protected path is also hidden or protected in another case and in other spellings
//     of Unicode.
//   - Commands cannot execute set-user-id programs, such as ps and crontab.
//
// # Limits of the promise
//
// macOS has no pid namespace: a process that leaves the command's process group survives it, still
// confined. It has no cgroups, so the engine enforces no limit of a Spec except the timeout.
// sandbox-exec gets the environment of its command, because it cannot pass it on otherwise; the
// engine refuses variables that the system's loader or allocator would obey there. Its own failures
// are exit statuses 65 and 71, which a command can also have: so Open tries each new profile, and
// the engine looks up a command first that the sandbox may not execute.
//
// macOS has no signal for a parent's death. So a killed engine process leaves its commands running,
// and their directories: in the session's, which its host removes, or without a session in the
// system's temporary directory.
//
// The package was written without a Mac. A model of macOS (the files sbpl_*_test.go) tests the
// profiles; on a Mac the same tests run for real. docs/seatbelt.md says what ran where.
package seatbelt
