//go:build unix

package bwrap

import "syscall"

const errNotDir = syscall.ENOTDIR
