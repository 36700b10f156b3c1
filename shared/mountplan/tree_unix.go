//go:build unix

package mountplan

import "syscall"

const errNotDir = syscall.ENOTDIR
