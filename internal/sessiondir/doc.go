// Package sessiondir makes, lists, measures and removes the directories of sessions.
//
// # What it promises
//
// A [Dir] is the directory of one session: private, made on first use, removed by its owner, and
// swept by any process of the same user after its owner's death. A named one outlives its owners,
// belongs to one workspace, and is removed seven days after its last use. No sweep removes a
// directory whose owner lives.
//
// It removes all files of commands: at any depth, unreadable for their owner, or with other users'
// numbers. It follows no symlink, and does not touch a mount.
//
// # What it does not promise
//
// On a network file system a session's directory is as exclusive as flock there.
//
// Nothing limits the size of a session's directory: it must outlive every process of the session,
// so it cannot be memory, and only root can set up the kernel's limits for directories on a disk.
//
// The package needs flock and the *at system calls, so Linux or macOS.
package sessiondir

import (
	"errors"
	"time"
)

// Errors for errors.Is. See also hostpath.ErrNotPrivate.
var (
	// ErrName: the name of a session, of a directory in it, or of a review is not a plain file name.
	ErrName = errors.New("not a valid name")
	// ErrInUse: the named session has a living owner.
	ErrInUse = errors.New("session is in use")
	// ErrWorkspace: the named session belongs to another workspace.
	ErrWorkspace = errors.New("session belongs to another workspace")
)

// Info describes the directory of a named session.
type Info struct {
	Name      string    `json:"name"`
	Workspace string    `json:"workspace"` // its workspace's root; "" if it was never recorded
	Dir       string    `json:"dir"`
	LastUsed  time.Time `json:"last_used"`
	InUse     bool      `json:"in_use"` // a process owned it at that time
	Users     []int     `json:"users"`  // those processes, if the system lists them
}
