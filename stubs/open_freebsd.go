package stubs

import "golang.org/x/sys/unix"

// createFile creates a file.
func createFile(dir int, name, content string) error { return createNamed(dir, name, content) }

// renameNew is refused: FreeBSD cannot move without replacing what is there. No command
// runs here, for which something would be moved.
func renameNew(int, string, int, string) error { return unix.ENOTSUP }

// identity: without renameNew nothing is told from another.
func identity(int) string { return "" }
