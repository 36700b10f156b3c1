package workspace

import "errors"

// Errors for errors.Is. Returned errors wrap one of them, and name the path or the field.
var (
	// ErrOutside: the path leads to no root.
	ErrOutside = errors.New("outside the workspace's roots")
	// ErrReadOnlyRoot: a write to a path whose innermost root is read-only.
	ErrReadOnlyRoot = errors.New("in a read-only root")
	// ErrSensitive: the path, or a link in it, has a sensitive name (.env, .env.*) and
	// Options.DenySensitive is set.
	ErrSensitive = errors.New("sensitive file")
	// ErrInvalidPath: an empty path or one with a NUL byte.
	ErrInvalidPath = errors.New("invalid path")
	// ErrNameTooLong: a component over 255 bytes or a path over 4095.
	ErrNameTooLong = errors.New("name too long")
	// ErrLoop: the path has more than 40 symlinks. It comes with syscall.ELOOP.
	ErrLoop = errors.New("too many symlinks")
	// ErrChanged: a symlink appeared in the path between check and open.
	ErrChanged = errors.New("path changed while it was being opened")
	// ErrNotRegular: neither a regular file nor a directory. To open a fifo or a device that a
	// workspace has planted may block or have side effects.
	ErrNotRegular = errors.New("not a regular file or directory")
	// ErrRefusedRoot: the directory is too broad, or belongs to the system, so it cannot be a
	// project root or a writable root.
	ErrRefusedRoot = errors.New("refused as a workspace root")
	// ErrRootConflict: one directory is declared both read-only and writable.
	ErrRootConflict = errors.New("conflicting roots")
	// ErrUnresponsive: the file system of a root did not answer in time.
	ErrUnresponsive = errors.New("file system does not respond")
	// ErrGitLayout: .git is not that of a repository, worktree or submodule at this root.
	ErrGitLayout = errors.New("not a git layout that can be trusted")
)
