package workspace

import "errors"

// Errors for errors.Is, besides those of fs. Returned errors name the path or the field.
var (
	// ErrOutside: the path leads to no root.
	ErrOutside = errors.New("not in the workspace")
	// ErrRefusedRoot: the directory is too broad, or belongs to the system, so it cannot be a
	// project root or a writable root.
	ErrRefusedRoot = errors.New("refused as a workspace root")
	// ErrGitLayout: .git is not that of a repository, worktree or submodule at this root.
	ErrGitLayout = errors.New("not a git layout that can be trusted")
)
