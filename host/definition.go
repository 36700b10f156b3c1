package host

import (
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// What a definition consists of. "go doc github.com/sbxhost/sbxhost/internal/view Definition" lists its fields.
type (
	Definition = view.Definition
	Network    = view.Network
	Bind       = view.Bind
	Limits     = view.Limits
	Credential = view.Credential
	Fallback   = view.Fallback
	Isolation  = view.Isolation
	Filesystem = view.Filesystem
	Git        = view.Git
	Enforce    = view.Enforce

	SessionDefinition = view.SessionDefinition
)

// What attributes of a definition can say; see package view.
const (
	FallbackDeny      = view.FallbackDeny
	FallbackApprove   = view.FallbackApprove
	FilesystemMinimal = view.FilesystemMinimal
	FilesystemHost    = view.FilesystemHost
	GitProtected      = view.GitProtected
	GitFull           = view.GitFull
	EnforceRequired   = view.EnforceRequired
	EnforceBestEffort = view.EnforceBestEffort

	IsolationFull       = view.IsolationFull
	IsolationBestEffort = view.IsolationBestEffort
)

// NewReview is the Definition.Review of one whose commands have a review each.
const NewReview = view.NewReview

// DefaultGrace is how long a command that is timed out or cancelled has to
// act on SIGTERM.
const DefaultGrace = view.DefaultGrace

// DefaultIdle is how long processes of a session go on without a command.
const DefaultIdle = view.DefaultIdle

// The credential sets that a definition can name; see package view.
const (
	CredentialGitHub    = view.CredentialGitHub
	CredentialGitHubCLI = view.CredentialGitHubCLI
	CredentialSSHAgent  = view.CredentialSSHAgent
)

// DefaultProtected lists the names that Definition.ProtectPathsExcept can give
// up.
func DefaultProtected() []string { return view.DefaultProtected() }

// WorkspaceOptions choose the directory tree that commands work on.
type WorkspaceOptions struct {
	// Root is the project's directory, relative to Options.Dir. Empty means the git top
	// level above that, or that where there is none. The git
	// directories of a worktree or a submodule are shown besides it; of any
	// repository at a root, what could make git run programs is read-only.
	Root string
	// Readable and Writable are extra roots outside of Root. A readable
	// directory that belongs to whom commands run as can be written to for as
	// long as the session lasts, the host's files staying as they are; one of
	// another user's, or within a writable root, is read-only.
	Readable []string
	Writable []string
	// Temp makes /tmp a directory of the session, which New then makes; see
	// Host.Workspace. Without it each command has an empty one.
	Temp bool
	// Toolchains shows the directories of well-known toolchains and caches
	// that there are, without any that hold credentials, as readable roots are
	// shown, and passes on the variables that lead to them.
	Toolchains bool
	// Env are variables set in every command. Nil means those of the git
	// identity in force at Root, conditional includes counted, if Root lies in a
	// repository: GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and
	// GIT_COMMITTER_EMAIL. It is looked up once, when a command first needs it.
	Env map[string]string
}

// SessionOptions say what commands share.
type SessionOptions = session.Options

// SessionInfo describes a named session that there is.
type SessionInfo = session.Info

// ProcessInfo describes a process that runs in a session.
type ProcessInfo = session.Process

// Errors of reviews, which are wrapped: one that a command uses, one that has changed since it was
// looked at, an apply that something stood in the way of, and nothing to undo.
var (
	ErrReviewInUse   = review.ErrInUse
	ErrReviewChanged = review.ErrChanged
	ErrReviewBlocked = review.ErrBlocked
	ErrReviewUndo    = review.ErrUndo
)

// What a review consists of; see package review.
type (
	ReviewInfo    = review.Info
	ReviewChange  = review.Change
	ReviewNode    = review.Node
	ReviewSet     = review.Set
	ShownChange   = review.Shown // of a ReviewSet's JSON
	ReviewChoice  = review.Choice
	ReviewOutcome = review.Outcome
)

// EngineSource says where an engine that is not built in comes from.
type EngineSource = launch.Source

// EngineProgram is the executable of an engine, by the name that definitions call it.
type EngineProgram = launch.Program

// EngineError says that an engine's process could not be started, or was lost,
// with the end of what it logged.
type EngineError = launch.Error

// Builtins are the engines that this program contains and can serve by
// executing itself. Only ServeBuiltin makes one that is not empty, so that a
// Host never re-executes a program whose main is not prepared for it.
type Builtins = launch.Builtins

// ServeBuiltin must be the first call of a main that links engines. In a
// process that a Host has started to serve one of them, or that an engine has
// started as a sandbox's init, it does that and never returns: it ends the
// process. Everywhere else it returns at once what [Options.Builtins] needs.
func ServeBuiltin(engines ...shared.Engine) Builtins { return launch.ServeBuiltin(engines...) }
