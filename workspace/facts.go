package workspace

// RootDir describes one root of a workspace.
type RootDir struct {
	Field    string // its declaration: root, readable[N], writable[N], temp_alias
	Declared string // absolute, with the caller's symlinks
	// Spelled is the caller's path of the root through symlinks, and Of the target of that path.
	// Without symlinks both are empty, or the root.
	Spelled, Of string
	Path        string // resolved
	Writable    bool
}

// GitLayout has the parts of a repository and how a command may use them. Paths are absolute and
// resolved, and lie in the root, the git directory or the common directory. The inner one of nested
// paths counts. If several lists name a path, the last of Readable, Writable, Protected and Present
// counts.
type GitLayout struct {
	// GitDir has HEAD and the index of this root. CommonDir has objects, refs and config; only a
	// worktree has another one than GitDir. Both are empty if no repository is at this root.
	GitDir, CommonDir string
	// Readable must be visible, read-only.
	Readable []string
	// Writable must be visible and writable, or git does not work. They are directories, because
	// git replaces the index, HEAD and packed-refs by rename. The repositories of cloned submodules
	// are Writable inside a Protected modules directory. All exist and are no symlinks.
	Writable []string
	// Protected must never be written, moved, or created: a git run on the host later would execute
	// what they say, or follow them to a repository that it would obey.
	Protected []string
	// Present are also protected, and exist. If one is missing, nothing may hold its path: an empty
	// rebase-merge tells git that a rebase is in progress.
	Present []string
	// OtherWorktrees are the git directories of other worktrees in Protected. git gc cannot lock
	// the refs in them to expire their reflogs.
	OtherWorktrees []string
	// Configured are the tops of worktrees elsewhere that have a configuration or submodules of their own,
	// which can name files in this one.
	Configured []string
	// Pointers are what .git and commondir files name, in git's spelling, also those of other worktrees: whoever
	// can replace a symlink on the way leads git to another repository.
	Pointers []string
	// FixedContents are the configurations of submodules that commands must see: git submodule
	// update rewrites core.worktree if it is set, even to the same value. Without it, git finds the
	// work tree by the .git file there.
	FixedContents map[string][]byte
	// Split says that an index is split: some of its entries are in other files, which the indexes of
	// worktrees can share.
	Split bool
	// Lost are paths of worktrees that the repository lists, but that do not exist.
	Lost []string
	// worktrees are paths of the others. strayWorktrees are reasons: which listed worktrees are not
	// worktrees of the repository.
	worktrees, strayWorktrees []string
	away                      []string // git directories of worktrees whose directory is gone, or does not lead back
}

// GitControls is what a git on the host obeys for one repository, as git reports it: whoever can
// write it decides what git does, or executes.
type GitControls struct {
	Files []GitControl
	// Shared says that git gives its new files to a group, or to all: core.sharedRepository.
	Shared bool
	// Settings are those in force here for the user as of [Workspace.GitControls]; for the caller if as
	// is nil.
	Settings Settings
	// Failed says why Files is not complete: git is missing, fails or does not answer, or there is
	// too much. It quotes and shortens paths, and shows nothing else of the configuration.
	Failed error
	// Unlisted says, after a failure, that git may obey files outside of the git directory that
	// Files lacks: the configuration names some, or is not simple, or asking again may help.
	Unlisted bool
}

// ObeyedInGitDir are the parts of a git directory that make git run programs, or look for its parts elsewhere.
var ObeyedInGitDir = [...]string{"hooks", "config", "config.worktree", "commondir", "info/attributes", "remotes", "branches"}

// WorkTrees are the other directories that have a git directory in a repository. They may have lost
// their .git. Paths may occur twice.
type WorkTrees struct {
	Worktrees []string // those of git worktree, and the main one
	// Submodules are the gitlinks in the index, the submodules of .gitmodules, and cloned ones, which
	// another branch may have.
	Submodules []string
	Linked     []string // submodules behind a symlink, which may lead back: git enters them once the link is a directory
	All        bool     // sbxhost understands the index, so there are no others
}

// MaxGitActions bounds the repositories of GitActions: each costs some milliseconds.
const MaxGitActions = 256

// SelfCommonDir is a commondir file that changes nothing: the directory is its own common
// directory. It keeps commands from putting another one there.
const SelfCommonDir = ".\n"

// A GitControl is a file or directory that decides what git runs.
type GitControl struct {
	// Path is absolute and in git's spelling, so it can lead through symlinks or contain "..":
	// whoever can replace such a link decides too. It may not exist.
	Path        string
	Description string
	File        bool // its stub is a file
}

const (
	// The files of the system, the user, the repository and the worktree, and all that they include
	// under any condition.
	controlConfig = "configuration"
	// Directories in which git looks for hooks; symlinks and hard links in them: a command may write those by
	// another name.
	controlHooks   = "hooks"
	controlProgram = "program" // files that a setting names: programs, attributes, templates
)

// Settings are the system's and the user's git settings for commands: those that run no program,
// name no file or host, and are not secret.
type Settings struct {
	Config   string // the text of a configuration
	Excludes string // core.excludesFile, absolute; may be empty
	Signs    bool   // commit.gpgSign, unless the repository sets it
}
