//go:build unix && !linux

package hostpath

import "golang.org/x/sys/unix"

// LookFlags: there is no portable way to open a directory that cannot be read.
const LookFlags = unix.O_RDONLY

func hasACL(string) bool { return false } // elsewhere a list is no part of the mode
