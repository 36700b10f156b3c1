// Package hostpath works with paths of the host that a command, or another user, can influence. It
// opens them without following a symlink, makes directories that nobody else can write to, removes
// what a command has left, and locks a file without waiting for a hostile process. It says which
// programs the host may execute, and how, and how a message shows a path.
//
// Somebody can exchange a directory for a symlink at any moment. So each check uses a descriptor,
// or is repeated after the open.
package hostpath
