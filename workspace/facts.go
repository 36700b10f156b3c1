package workspace

import "strings"

// RootDir describes one root of a workspace.
type RootDir struct {
	Field    string // where it was declared: root, readable[N], writable[N], temp_alias
	Declared string // absolute, with the caller's symlinks
	// Spelled is a path by symlinks at which the caller is in it, and Of what that leads to; empty, or
	// both the root, where there are none.
	Spelled, Of string
	Path        string // resolved
	Writable    bool
}

// GitLayout is where the parts of a repository are and how a command may use
// them. Paths are absolute and resolved, and within the root, the git directory
// or the common directory. Of two that lie in one another the inner one counts;
// of the lists that name one path the last one: Readable, Writable, Protected,
// Present.
type GitLayout struct {
	// Kind says how the root is tied to its git directory: "plain", "worktree",
	// "submodule", "separate" or "bare"; "" if no repository is at this root.
	Kind string
	// GitDir holds HEAD and the index of this root. CommonDir holds objects,
	// refs and config; it is GitDir but for a worktree.
	GitDir, CommonDir string
	// Readable must be seen, read-only.
	Readable []string
	// Writable must be seen read-write for git to work: git replaces the index,
	// HEAD and packed-refs by rename, so their directories. The repositories of
	// cloned submodules are Writable within a Protected modules directory. Only
	// real directories that exist.
	Writable []string
	// Protected must never be written, moved, or created where they do not
	// exist: a git run on the host afterwards would execute what they say, or
	// follow them to a repository that would.
	Protected []string
	// Present are protected likewise, and exist. Nothing may hold their places
	// while they do not: an empty rebase-merge tells git that a rebase is under
	// way.
	Present []string
	// OtherWorktrees are those among Protected that are the git directories of other
	// worktrees. git gc cannot lock the refs in them to expire their reflogs.
	OtherWorktrees []string
	// FixedContents are the configurations of submodules, as a command has to see them: git
	// submodule update writes core.worktree anew wherever it is set, even to what it
	// is. Without it git finds the work tree by the .git file there, as it does anyway.
	FixedContents map[string][]byte
	// Lost are where worktrees were that are recorded and not there.
	Lost []string
}

// SelfCommonDir is the content of a commondir file that changes nothing: the
// directory is its own common directory. To put one there keeps others from
// being put there.
const SelfCommonDir = ".\n"

// Sensitive reports whether a file of this name is taken to hold secrets: .env
// and anything that begins with ".env.".
func Sensitive(name string) bool {
	return foldName(name) == ".env" || strings.HasPrefix(foldName(name), ".env.")
}

// Settings are what the system and the user have told git, as far as commands get it: what runs nothing, names no
// file or host, and carries no secret.
type Settings struct {
	Config   string // a configuration
	Excludes string // core.excludesFile, absolute; "" if it is none
	Signs    bool   // commit.gpgSign, and not by the repository
}
