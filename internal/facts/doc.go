// Package facts looks at the machine for commands: at git, the trees that they see, sockets, homes,
// toolchains, links and credentials. Package view decides with what it finds, and the result is the
// [Resolved] form of a definition.
//
// It changes little: it holds paths that do not exist, makes directories that must exist to be
// hidden, and keeps copies of git configurations. After a command it finds what that changed.
//
// # The files
//
// A [Machine] (machine.go) knows the caller (caller.go) and the workspace's owner. Resolve
// (resolve.go) makes the [Resolved] form of a definition from the input for package view
// (input.go): followed links (lookup.go), searched trees (search.go), sensitive files
// (sensitive.go), sockets (sockets.go), toolchains (toolchains.go), this program's own files
// (hostpaths.go), mounts (mounts_linux.go), and credentials (credentials.go, inject.go). Then it
// holds paths (hold.go) and mounts copies (copies.go). command.go is about one command. After it,
// changes.go finds what it changed, replaced.go what the host replaced meanwhile, and denied.go
// answers package denial.
package facts
