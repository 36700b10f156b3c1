// Package facts looks at the machine for commands: at git, the trees that they see, sockets, homes,
// toolchains, links and credentials. Package view decides with what it finds, and the result is the
// [Resolution] form of a definition.
//
// It changes little: it holds paths that do not exist, makes directories that must exist to be
// hidden, and keeps copies of git configurations. After a command it finds what that changed.
//
// # The files
//
// A [Machine] (machine.go) knows the caller (caller.go), and the user of a root caller's commands
// (accounts.go). Resolve (resolve.go) makes the [Resolution] of a definition from the input for package
// view (input.go): followed links and repositories (lookup.go), mounts (mounts.go), searched trees
// (search.go), bound sockets (unixsockets_linux.go), sockets of services (controlsockets.go),
// toolchains (toolchains.go), this program's own files (hostpaths.go), and credentials (credentials.go,
// inject.go). Then it shows copies, also of git's settings (copies.go), and holds paths (hold.go).
// command.go is about one command.
//
// After a command, changes.go finds what it changed (report.go), and findings.go says it to people;
// unreported.go finds commands of killed hosts, replaced.go what somebody outside replaced meanwhile,
// and witness.go answers package denial. Without a command, writable.go says where commands could write.
package facts
