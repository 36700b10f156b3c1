// Package sessiondir makes, lists, measures and removes the directories that sessions are
// kept in.
//
// # What it promises
//
// A [Dir] is the directory of one session: private, made on first use, removed by its
// owner, and swept by any process of the same user once the owner is dead. A named one
// outlives its owners, belongs to one workspace, and goes seven days after its last use.
// No sweep removes a directory whose owner lives.
//
// What commands have put there is removed whatever it is: of any depth, closed to its
// owner, or of other users' numbers. No symlink is followed, and nothing that is mounted
// there is touched.
//
// # What it does not promise
//
// On a network file system a session's directory is as exclusive as flock is there.
//
// Nothing bounds what is written to a session's directory: it has to outlive every process
// of the session, so it cannot be memory, and what the kernel has for directories on a disk
// is root's to set up.
//
// The package needs flock and the *at system calls, that is, Linux or macOS.
package sessiondir

import (
	"errors"
	"time"
)

// Errors that callers tell apart with errors.Is. See also hostpath.ErrNotPrivate.
var (
	// ErrName: a session's name, or that of a directory in it, that is no plain file name.
	ErrName = errors.New("invalid session name")
	// ErrInUse: the named session has a living owner.
	ErrInUse = errors.New("session is in use")
	// ErrWorkspace: the named session belongs to another workspace.
	ErrWorkspace = errors.New("session belongs to another workspace")
	// ErrClosed: the Dir was used after Close.
	ErrClosed = errors.New("session is closed")
)

// Info describes a named session's session directory.
type Info struct {
	Name      string
	Dir       string
	Workspace string // the root it belongs to; "" if that was never recorded
	LastUsed  time.Time
	InUse     bool  // some process owned it when it was looked at
	Users     []int // those processes, as far as the system tells
}
