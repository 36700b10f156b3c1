// Package hostpath works with paths of the host that a command, or another user, had a
// say in: how to open them without following a symlink, how to make directories that
// nobody else can write to, how to remove what a command has left, how to lock a file
// without waiting for who means harm, which programs may be executed and how, and how a
// message shows a path.
//
// A directory can be exchanged for a symlink at any moment. So what is checked is
// checked by descriptor, or again after it was opened.
package hostpath
