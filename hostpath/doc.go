// Package hostpath deals with paths of the host that somebody else had a say in:
// a command that chose a file's name, or a command or another user who could have
// put a symlink or a program there. It says how a message shows such a path
// ([Quote]), reaches a place to write at without being led elsewhere ([Resolve],
// [OpenDir]), and refuses a program that others could have replaced
// ([CheckProgram]). It decides nothing about sandboxes.
package hostpath
