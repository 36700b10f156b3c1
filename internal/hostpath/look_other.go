//go:build unix && !linux

package hostpath

import "golang.org/x/sys/unix"

// LookFlags open for reading: no portable flag opens an unreadable directory.
const LookFlags = unix.O_RDONLY

func hasACL(string) bool { return false } // elsewhere the mode does not include a list
