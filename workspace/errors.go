package workspace

import "errors"

// Errors for errors.Is. Returned errors wrap one of them, and name the path or the field.
var (
	// ErrOutside: the path leads to no root.
	ErrOutside = errors.New("not in the workspace")
	// ErrInvalidPath: an empty path or one with a NUL byte.
	ErrInvalidPath = errors.New("invalid path")
	// ErrChanged: a file changed again and again while it was read.
	ErrChanged = errors.New("path changed while it was read")
	// ErrNotRegular: a root is neither a regular file nor a directory.
	ErrNotRegular = errors.New("not a regular file or directory")
	// ErrRefusedRoot: the directory is too broad, or belongs to the system, so it cannot be a
	// project root or a writable root.
	ErrRefusedRoot = errors.New("refused as a workspace root")
	// ErrRootConflict: one directory is declared both read-only and writable.
	ErrRootConflict = errors.New("conflicting roots")
	// ErrGitLayout: .git is not that of a repository, worktree or submodule at this root.
	ErrGitLayout = errors.New("not a git layout that can be trusted")
)
