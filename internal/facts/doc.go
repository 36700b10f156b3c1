// Package facts looks at the machine for commands: at git, at the trees that they are
// shown, at sockets, homes, toolchains, links and credentials. It tells package view
// what it finds, which decides, and gives the [Resolved] form of a definition.
//
// It changes little: it holds the places of paths that do not exist, makes what has
// to be there to be hidden, and keeps copies of git configurations. After a command
// it looks for what that has made.
//
// # To find the way
//
// A [Machine] (machine.go) knows who asks (caller.go) and to whom the workspace belongs. Resolve
// (resolve.go) makes the [Resolved] form of a definition from what package view is told (input.go):
// links that are followed (lookup.go), trees that are searched (scanners.go), files that can be
// secret (sensitive.go), sockets (sockets.go), toolchains (toolchains.go), what this program itself
// keeps (hostpaths.go), mounts (mounts_linux.go), and credentials
// (credentials.go, inject.go). Then places are held (hold.go) and copies are mounted (copies.go).
// For one command there is command.go. After it, changes.go finds what it has made or changed, replaced.go what
// the host has replaced meanwhile, and denied.go what package denial asks for.
package facts
