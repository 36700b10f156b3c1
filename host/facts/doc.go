// Package facts looks at the machine for commands: at git, at the trees that they are
// shown, at sockets, homes, toolchains, links and credentials. It tells package view
// what it finds, which decides, and gives the [Resolved] form of a definition.
//
// It changes little: it holds the places of paths that do not exist, makes what has
// to be there to be hidden, and keeps copies of git configurations. After a command
// it looks for what that has made.
package facts
