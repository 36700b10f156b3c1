package host

import (
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// The parts of a definition.
type (
	// Definition is one sandbox as its author wrote it: paths may be relative to the workspace or
	// begin with "~/". The zero value isolates with the platform's engine: no network, nothing of
	// the host but the curated operating system files and the workspace.
	//
	//	type Definition struct {
	//		// Engine is "auto" (also ""), a built-in engine's name, or a name in Options.Engines or
	//		// Options.Inject.
	//		Engine string
	//		// Fallback decides what happens if the engine cannot run here. Empty means approve for auto,
	//		// and deny for a named engine.
	//		Fallback Fallback
	//		// Isolation decides what happens if the engine cannot enforce a part of the isolation; empty
	//		// means full.
	//		Isolation Isolation
	//		// Network is what the command can reach; the zero value is nothing.
	//		Network Network
	//		// HostPorts are TCP ports of the host's loopback that the command finds on its own loopback.
	//		HostPorts []uint16
	//		// Publish are TCP ports of the command's loopback on which the host listens: "3000", "8080:3000"
	//		// (the host's first) or "192.0.2.1:8080:3000". The default address is 127.0.0.1.
	//		Publish []string
	//		// Filesystem is the view beneath the workspace and binds; empty means minimal.
	//		Filesystem Filesystem
	//		// ReadOnly makes the workspace itself read-only.
	//		ReadOnly bool
	//		// Review names the review that receives what commands write to the workspace: see
	//		// Host.OpenReview. NewReview makes one for each command. Empty means that they write to the
	//		// workspace.
	//		Review string
	//		// Workdir is the workspace's path inside: "host" (also "") for its own path, or an absolute
	//		// path such as "/workspace".
	//		Workdir string
	//		// BindPaths are further host paths to show.
	//		BindPaths []Bind
	//		// DenyPaths are hidden paths and patterns, in the form of package glob: absolute, beginning
	//		// with "~/", relative to the workspace's root, or beginning with "**/" for everything that is
	//		// shown. Commands cannot create a missing path without wildcards. They override everything
	//		// else.
	//		DenyPaths []string
	//		// ProtectPaths are paths and patterns of the same form that commands cannot write.
	//		ProtectPaths []string
	//		// ProtectPathsExcept are names of DefaultProtected that commands may write.
	//		ProtectPathsExcept []string
	//		// Git decides whether commands can write what git obeys; empty means protected.
	//		Git Git
	//		// UnixSockets are socket files that commands may connect to. All others in visible directories
	//		// are hidden. A listed socket that is in no visible directory is shown at its path.
	//		UnixSockets []string
	//		// Devices are device nodes in /dev that commands may use, if they cannot harm others: see
	//		// docs/configuration.md.
	//		Devices []string
	//		// EnvPassthrough are names and globs of variables to pass on.
	//		EnvPassthrough []string
	//		// EnvUnset are names of variables that commands do not have, whatever sets or passes them.
	//		EnvUnset []string
	//		// Env are variables to set. Only Env can set a variable on the denylist of variables that
	//		// inject code.
	//		Env map[string]string
	//		// Credentials are names of credential sets that commands can use. They get a placeholder for
	//		// each. The host replaces it by the credential in requests to the set's hosts; Network must
	//		// then be a list. Commands get an agent's socket, and the variables of a set with Pass,
	//		// directly.
	//		Credentials []string
	//		// Session decides what commands share besides files.
	//		Session SessionDefinition
	//		// Limits bound each command, or all of a session with Processes.
	//		Limits Limits
	//		// Config is a JSON object of the engine's own options; nil means none. With the engine "auto"
	//		// they are docker's, if that is declared, and the platform's engine uses its defaults.
	//		Config json.RawMessage
	//	}
	//	func (d *Definition) Differs(other *Definition) string
	//	func (d *Definition) Validate() error
	Definition = view.Definition
	// Network is what a command can reach beyond its own loopback.
	//
	//	type Network struct {
	//		// Host gives the command all of the host's network.
	//		Host bool
	//		// Names are rules of what the command can reach, and nothing else: "registry.npmjs.org",
	//		// "*.github.com" (its subdomains, not the name itself), "db.example.com:5432", and
	//		// "!admin.github.com", an exception from other rules. Without ports a rule is for 80 and 443.
	//		// See egress.ParseRule.
	//		Names []string
	//	}
	//	func (n Network) String() string
	Network = view.Network
	// Bind shows a host path inside.
	//
	//	type Bind struct {
	//		Host      string
	//		Container string // absolute path inside; empty means Host's resolved path
	//		Writable  bool
	//		Optional  bool // skip a missing Host
	//	}
	Bind = view.Bind
	// Limits bound each command; zero means unlimited.
	//
	//	type Limits struct {
	//		Timeout   time.Duration
	//		Grace     time.Duration // from SIGTERM to the kill; zero means DefaultGrace
	//		Memory    uint64        // bytes
	//		CPUs      float64       // processors' worth of time
	//		PIDs      uint64
	//		OpenFiles uint64 // in each process
	//		TempSize  uint64 // bytes; not for what a session keeps
	//		// Enforce decides what happens if nothing here can enforce a limit; empty means required.
	//		Enforce Enforce
	//	}
	Limits = view.Limits
	// Credential is a set for Definition.Credentials: one of your own, or a built-in set with Pass.
	//
	//	type Credential struct {
	//		// Pass passes the variables on to commands. A built-in set has no other field.
	//		Pass bool
	//		// Hosts are names, without a wildcard. Only requests to these hosts get the credential.
	//		Hosts []string
	//		// Header is the header for it; empty means Authorization.
	//		Header string
	//		// Env are variables with the secret part of Value, such as the token in "Bearer TOKEN".
	//		// Commands get a [Placeholder] in each, and the token in no other variable.
	//		Env map[string]shared.Secret
	//		// Placeholder is what commands send in place of Value, such as "Bearer PLACEHOLDER".
	//		Placeholder string
	//		// Value is the secret. If it is empty, the credential is unavailable, and requests are not
	//		// authenticated.
	//		Value shared.Secret
	//	}
	//	func (c *Credential) Validate() error
	Credential = view.Credential
	// SessionDefinition is what a definition's commands share.
	//
	//	type SessionDefinition struct {
	//		// Processes makes the session's commands share processes, the loopback and /tmp, as on one
	//		// machine. Processes that a command leaves running go on after its end, until the Host closes,
	//		// or no command has come for Idle. Only one definition at a time can use this in a session.
	//		Processes bool
	//		// Idle is how long processes may run without a command; zero means DefaultIdle.
	//		Idle time.Duration
	//	}
	SessionDefinition = view.SessionDefinition

	// Fallback decides what happens if the engine cannot run here.
	Fallback = view.Fallback
	// Isolation decides what happens if the engine cannot enforce a part of the isolation.
	Isolation = view.Isolation
	// Filesystem is the view beneath the workspace and binds.
	Filesystem = view.Filesystem
	// Git decides whether commands can write what git obeys.
	Git = view.Git
	// Enforce decides what happens if nothing here can enforce a limit.
	Enforce = view.Enforce
)

// The values of a definition's attributes; empty is the default of each.
const (
	FallbackDeny        = view.FallbackDeny
	FallbackApprove     = view.FallbackApprove
	FilesystemHost      = view.FilesystemHost
	GitFull             = view.GitFull
	EnforceBestEffort   = view.EnforceBestEffort
	IsolationBestEffort = view.IsolationBestEffort
)

// NewReview, as Definition.Review, makes a review for each command.
const NewReview = view.NewReview

// DefaultGrace is the time from SIGTERM to the kill of a command that timed out or was cancelled.
const DefaultGrace = view.DefaultGrace

// DefaultIdle is the time that a session's processes may run without a command.
const DefaultIdle = view.DefaultIdle

// DefaultProtected lists the names that Definition.ProtectPathsExcept can give
// up.
func DefaultProtected() []string { return view.DefaultProtected() }

// WorkspaceOptions choose the directory tree that commands work on.
type WorkspaceOptions struct {
	// Root is the project's directory, relative to Options.Dir. Empty means the git top level above
	// Options.Dir, or Options.Dir itself outside of repositories. Commands also see the git
	// directories of a worktree or submodule. In a repository at a root, files that can make git
	// run programs are read-only.
	Root string
	// Readable and Writable are extra roots outside of Root. Commands can write to a readable
	// directory that belongs to their user: the session keeps the changes, and the host's files
	// stay the same. A directory of another user, or in a writable root, is read-only.
	Readable []string
	Writable []string
	// Temp makes /tmp a directory of the session, which New creates; see Host.Workspace. Without it
	// each command has an empty /tmp.
	Temp bool
	// Toolchains shows the directories of well-known toolchains and caches as readable roots,
	// without those that hold credentials, and passes on the variables that lead to them.
	Toolchains bool
	// Env are variables for every command.
	Env map[string]string
}

// SessionOptions choose what commands share.
//
//	type SessionOptions struct {
//		// Name makes a session that one Host after another of this user can have, if they work on the
//		// same workspace. A Host has it from its first command until Close; the commands of others fail
//		// with ErrSessionInUse, which names the process. The session lasts until RemoveSession, or until
//		// nobody has used it for seven days. A name has at most 64 letters, digits, ".", "_" and "-", and
//		// begins with a letter or digit.
//		Name string
//		// OneShot says that the Host runs one command, so nothing is shared. The command starts faster,
//		// because the Host makes a session only if the command can write to it.
//		OneShot bool
//		// Each gives each command a session of its own, so that commands share nothing although the
//		// Host runs many, as in a server for unrelated programs. It implies OneShot.
//		// WorkspaceOptions.Temp, a review and Definition.Session.Processes fail.
//		Each bool
//		// Dir is the directory in which directories of sessions are made: an absolute path that only
//		// this user can write to. Empty means sbxhost/sessions in $XDG_CACHE_HOME or ~/.cache or, for a
//		// root caller whose commands run as the owner of the workspace, /var/cache/sbxhost/UID.
//		Dir string
//	}
type SessionOptions = session.Options

// SessionInfo describes a named session.
//
//	type SessionInfo struct {
//		sessiondir.Info
//		UID  uint32 `json:"uid"`  // the user of its commands
//		Size int64  `json:"size"` // bytes on its file system; -1 if unknown
//	}
type SessionInfo = session.Info

// ProcessInfo describes a process of a session.
//
//	type ProcessInfo struct {
//		PID     int       `json:"pid"` // as commands see it
//		HostPID int       `json:"host_pid"`
//		Parent  int       `json:"parent"` // as commands see it; 1 is the session itself
//		Args    []string  `json:"args"`
//		Started time.Time `json:"started"`
//		Memory  int64     `json:"memory"` // resident bytes
//	}
type ProcessInfo = session.Process

// Errors of reviews, to be found with errors.Is: a command uses the review; it changed since
// somebody looked at it; something prevents its apply; there is nothing to undo.
var (
	ErrReviewInUse   = review.ErrInUse
	ErrReviewChanged = review.ErrChanged
	ErrReviewBlocked = review.ErrBlocked
	ErrReviewUndo    = review.ErrUndo
)

// The parts of a review; see package review.
type (
	// ReviewInfo describes a review.
	//
	//	type ReviewInfo struct {
	//		Name    string    `json:"name"`
	//		Sandbox string    `json:"sandbox"`
	//		Created time.Time `json:"made"`
	//		InUse   bool      `json:"in_use"`
	//		// Applied says that it was applied, completely or in part, and that this can be undone.
	//		Applied  bool      `json:"applied"`
	//		Complete bool      `json:"whole"` // as Applied, and nothing else is in it
	//		Used     time.Time `json:"used"`
	//	}
	ReviewInfo = review.Info
	// ReviewChange is one path at which a review differs from the workspace.
	//
	//	type ReviewChange struct {
	//		Shown string `json:"path"` // relative to the workspace, or absolute
	//		Op    Op     `json:"op"`
	//		Old   Node   `json:"old"` // the host's; Absent for an added path
	//		New   Node   `json:"new"` // the review's; Absent for a deleted path
	//		// Refused says why the change can never be applied: "a socket". A person can leave it out.
	//		Refused string `json:"refused"`
	//		// Conflict says what the host did to the path since the review began.
	//		Conflict string `json:"conflict"`
	//		// Attributes names the extended attributes and access control lists in which New and Old
	//		// differ. An apply writes them with the file or directory, but not with a change of Mode.
	//		Attributes string `json:"attributes"`
	//		// Uncompared says that nobody knows whether the contents are modified; see maxCompared.
	//		Uncompared bool `json:"uncompared,omitempty"`
	//		// Note is what a person should know about the change.
	//		Note string `json:"note"`
	//
	//	}
	//	func (c *ReviewChange) Text() string
	//	func (c *ReviewChange) Line() string
	//	func (c ReviewChange) MarshalJSON() ([]byte, error)
	//	func (c *ReviewChange) IsIn(paths []string) bool
	//	func (c *ReviewChange) Concerns(paths []string) bool
	ReviewChange = review.Change
	// ReviewNode describes the file at a path, in the workspace or in the review.
	//
	//	type ReviewNode struct {
	//		Kind   Kind
	//		Mode   uint32 // permissions, with set-user-ID, set-group-ID and sticky bits
	//		Size   int64
	//		Target string // of a symlink
	//	}
	//	func (n ReviewNode) MarshalJSON() ([]byte, error)
	ReviewNode = review.Node
	// ReviewSet is the content of a review.
	//
	//	type ReviewSet struct {
	//		Digest  string   `json:"digest"`
	//		Changes []Change `json:"changes"`
	//	}
	//	func (s *ReviewSet) Visible() (seen *Set, unseen int)
	ReviewSet = review.Set
	// ReviewChoice chooses what to apply of a review.
	//
	//	type ReviewChoice struct {
	//		Digest string   // of the set that somebody looked at; empty: any
	//		Paths  []string // with all that they contain; empty: everything
	//		Ours   []string // paths at which the workspace keeps its own
	//		Theirs []string // paths at which the review wins, whatever the host did since
	//	}
	ReviewChoice = review.Choice
	// ReviewOutcome is what an apply did.
	//
	//	type ReviewOutcome struct {
	//		Applied  []Change
	//		Complete bool // nothing is left in the review
	//		// Conflicts and Refused prevented the apply: then nothing was applied.
	//		Conflicts, Refused []Change
	//	}
	ReviewOutcome = review.Outcome
)

// EngineSource is where an engine that is not built in comes from.
//
//	type EngineSource struct {
//		// Source is the path of its executable, absolute or beginning with "~/".
//		Source string
//		// SHA256 are the checksums that the executable must have, in hexadecimal, by platform such as
//		// "linux_amd64". Each start checks the opened file, and executes that. Nil permits any file; a
//		// platform that is missing from a map that is not empty is refused.
//		SHA256 map[string]string
//		// Env names the variables of the host's environment that the engine's process gets.
//		Env []string
//	}
type EngineSource = launch.Source

// EngineProgram is the executable of an engine.
//
//	type EngineProgram struct {
//		Name string `json:"name"` // the definitions' name for the engine, whatever it calls itself
//		Path string `json:"path"` // of the host, resolved
//		// SHA256 is its checksum at its start, in lower case hexadecimal; empty if the file cannot be
//		// read.
//		SHA256 string `json:"sha256"`
//	}
type EngineProgram = launch.Program

// EngineError is the error of an engine's process that did not start or was lost, with the end of
// its log.
//
//	type EngineError struct {
//		Engine string // its name
//		Source string // its origin: "built in" or its path
//		Err    error
//		Log    string // up to 8 KiB; may be empty
//	}
//	func (e *EngineError) Error() string
//	func (e *EngineError) Unwrap() error
type EngineError = launch.Error

// Builtins are the engines in this program, which serves them by executing itself. Only
// ServeBuiltin makes a value that is not empty, so that a Host never re-executes a program whose
// main is not prepared for it.
//
//	type Builtins struct{ ... }
type Builtins = launch.Builtins

// ServeBuiltin must be the first call in the main of a program that links engines. In a process
// that a Host started as an engine, or that an engine started as a sandbox's init, it serves and
// then exits; it never returns. In every other process it returns at once with the value for
// [Options.Builtins].
func ServeBuiltin(engines ...shared.Engine) Builtins { return launch.ServeBuiltin(engines...) }
