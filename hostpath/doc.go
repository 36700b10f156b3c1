// Package hostpath deals with paths of the host that somebody else had a say in:
// a command that chose a file's name, or that could put a symlink where sbxhost
// is about to write. It decides nothing about sandboxes.
package hostpath
