package host

import (
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// What a definition consists of.
type (
	// Definition is one sandbox as its author wrote it: paths may be relative to the workspace or
	// begin with "~/". The zero value isolates with the platform's engine: no network, nothing of
	// the host but the curated operating system files and the workspace.
	//
	//	type Definition struct {
	//		// Engine is "auto" (also ""), a built-in engine's name, or that of an
	//		// entry in Options.Engines or Options.Inject.
	//		Engine string
	//		// Fallback says what happens when the engine cannot run here. Empty means
	//		// approve for auto and deny for a named engine.
	//		Fallback Fallback
	//		// Isolation says what becomes of a part of the isolation that the engine cannot
	//		// hold; empty means full.
	//		Isolation Isolation
	//		// Network is what the command can reach; the zero value is nothing.
	//		Network Network
	//		// HostPorts are TCP ports of the host's loopback that the command finds on its own.
	//		HostPorts []uint16
	//		// Publish are TCP ports of the command's loopback on which the host listens, as
	//		// "3000", "8080:80" (the host's first) or "192.0.2.1:8080:80". An address that is not
	//		// written out is 127.0.0.1.
	//		Publish []string
	//		// Filesystem is what lies beneath; empty means minimal.
	//		Filesystem Filesystem
	//		// ReadOnly makes the workspace itself read-only.
	//		ReadOnly bool
	//		// Review names the review that takes what commands write to the workspace: see
	//		// Host.OpenReview. NewReview makes one for each command; empty, they write to the workspace.
	//		Review string
	//		// Workdir is where the workspace lies inside: "host" (also "") for its own
	//		// path, or an absolute path such as "/workspace".
	//		Workdir string
	//		// BindPaths are further host paths to show.
	//		BindPaths []Bind
	//		// DenyPaths are paths and patterns that are hidden, as package glob has them:
	//		// absolute, beginning with "~/", or relative to the workspace's root - and
	//		// where they begin with "**/", to all that is shown. A path without wildcards
	//		// that does not exist cannot be created. They win over everything else.
	//		DenyPaths []string
	//		// ProtectPaths are paths and patterns, likewise, that cannot be written.
	//		ProtectPaths []string
	//		// ProtectPathsExcept are names among DefaultProtected that may be written.
	//		ProtectPathsExcept []string
	//		// Git says whether what git obeys can be written; empty means protected.
	//		Git Git
	//		// UnixSockets are socket files that commands may connect to. All others in
	//		// what is shown are hidden. One that nothing else shows is shown at its path.
	//		UnixSockets []string
	//		// Devices are device nodes in /dev that commands may use, of those that do no harm to others:
	//		// see docs/configuration.md.
	//		Devices []string
	//		// EnvPassthrough are names and globs of variables to pass on.
	//		EnvPassthrough []string
	//		// EnvUnset are names of variables that commands do not have, whoever has set or passed them.
	//		EnvUnset []string
	//		// Env are variables to set, the only way to set one that is on the
	//		// denylist of variables that inject code.
	//		Env map[string]string
	//		// Credentials are names of credential sets that commands can use. Of each they get a
	//		// placeholder, in whose place the credential is put into requests to its own hosts, outside;
	//		// Network must then be a list. They get an agent's socket, and a set that says Pass.
	//		Credentials []string
	//		// Session says what commands share besides files.
	//		Session SessionDefinition
	//		// Limits bound each command, or all that runs in a session with Processes.
	//		Limits Limits
	//		// Config is a JSON object of the engine's own options; nil means none. With
	//		// the engine "auto" they are those of docker, where that is declared, and
	//		// the platform's engine has its defaults.
	//		Config json.RawMessage
	//	}
	//	func (d *Definition) Differs(other *Definition) string
	//	func (d *Definition) Validate() error
	//	func (d *Definition) SpecNetwork() (n shared.Network, notes []string)
	//	func (d Definition) ImplicitName() string
	//	func (d *Definition) Unheld(engine string) (notes []string)
	//	func (d *Definition) Passed(own map[string]Credential) (names []string)
	//	func (d *Definition) Injected(own map[string]Credential) []string
	//	func (d *Definition) CheckCredentials(own map[string]Credential) error
	//	func (d *Definition) GitHubHosts(address string) ([]string, error)
	Definition = view.Definition
	// Network is what a command can reach beyond its own loopback.
	//
	//	type Network struct {
	//		// Host gives the command the host's network, all of it.
	//		Host bool
	//		// Names are rules of what can be reached, and nothing else can: "registry.npmjs.org",
	//		// "*.github.com" (its subdomains, not the name itself), "db.example.com:5432", and
	//		// "!admin.github.com" for one that others allow. Without ports a rule is for 80 and 443. See egress.ParseRule.
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
	//		Optional  bool // a missing Host is skipped
	//	}
	Bind = view.Bind
	// Limits bound each command; zero means unlimited.
	//
	//	type Limits struct {
	//		Timeout   time.Duration
	//		Grace     time.Duration // between SIGTERM and the kill; zero means DefaultGrace
	//		Memory    uint64        // bytes
	//		CPUs      float64       // processors' worth of time
	//		PIDs      uint64
	//		OpenFiles uint64 // a process
	//		TempSize  uint64 // bytes; see SessionOptions for what lasts
	//		// Enforce says what becomes of a limit that nothing here can hold; empty means required.
	//		Enforce Enforce
	//	}
	//	func (l *Limits) Spec() shared.Limits
	Limits = view.Limits
	// Credential is one for Definition.Credentials that is no built-in set, or says Pass of one.
	//
	//	type Credential struct {
	//		// Pass has commands get the variables as they are. A built-in set has nothing else.
	//		Pass bool
	//		// Hosts are names, without a wildcard. Requests to no other host get it.
	//		Hosts []string
	//		// Header is where it goes; empty means Authorization.
	//		Header string
	//		// Env are variables with what is secret of Value, such as the token in "Bearer TOKEN".
	//		// Commands get a [Placeholder] in each, and no other variable with it.
	//		Env map[string]shared.Secret
	//		// Placeholder is what commands send in the place of Value, such as "Bearer PLACEHOLDER".
	//		Placeholder string
	//		// Value is the secret. Empty: it is not to be had, and commands are not authenticated.
	//		Value shared.Secret
	//	}
	//	func (c *Credential) Validate() error
	Credential = view.Credential
	// SessionDefinition is what the commands of a definition share.
	//
	//	type SessionDefinition struct {
	//		// Processes makes the session's commands one machine: they share processes, the loopback and
	//		// /tmp, and what one of them leaves running goes on when it has ended. It ends with the Host, or
	//		// when no command has come for Idle. Commands of one definition at a time can have that
	//		// in a session.
	//		Processes bool
	//		// Idle is how long processes may run without a command; zero means DefaultIdle.
	//		Idle time.Duration
	//	}
	SessionDefinition = view.SessionDefinition

	Fallback   = view.Fallback
	Isolation  = view.Isolation
	Filesystem = view.Filesystem
	Git        = view.Git
	Enforce    = view.Enforce
)

// What attributes of a definition can say; empty is the default of each.
const (
	FallbackDeny        = view.FallbackDeny
	FallbackApprove     = view.FallbackApprove
	FilesystemHost      = view.FilesystemHost
	GitFull             = view.GitFull
	EnforceBestEffort   = view.EnforceBestEffort
	IsolationBestEffort = view.IsolationBestEffort
)

// NewReview is the Definition.Review of one whose commands have a review each.
const NewReview = view.NewReview

// DefaultGrace is how long a command that is timed out or cancelled has to
// act on SIGTERM.
const DefaultGrace = view.DefaultGrace

// DefaultIdle is how long processes of a session go on without a command.
const DefaultIdle = view.DefaultIdle

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
//
//	type SessionOptions struct {
//		// Name makes the session one that Hosts of this user share, at once and one
//		// after another, if they work on the same workspace. It is kept until
//		// RemoveSession, or until nobody has used it for seven days. Letters,
//		// digits, ".", "_" and "-", at most 64, the first a letter or digit.
//		Name string
//		// OneShot says that the Host runs one command and so shares nothing, which
//		// starts it faster: there is no session unless something is to be
//		// written to it.
//		OneShot bool
//		// Each says that commands share nothing though the Host runs many, as a server does
//		// for programs that know nothing of one another: each has a session of its own. It implies OneShot.
//		// WorkspaceOptions.Temp, a review and Definition.Session.Processes fail with ErrNoSession.
//		Each bool
//		// Dir is where directories of sessions are made, an absolute path that is
//		// this user's alone to write. Empty means the place above.
//		Dir string
//	}
type SessionOptions = session.Options

// SessionInfo describes a named session that there is.
//
//	type SessionInfo struct {
//		sessiondir.Info
//		UID  uint32 // whom its commands run as
//		Size int64  // bytes on its file system
//	}
type SessionInfo = session.Info

// ProcessInfo describes a process that runs in a session.
//
//	type ProcessInfo struct {
//		PID     int // as commands see it
//		HostPID int
//		Parent  int // as commands see it; 1 is the session itself
//		Args    []string
//		Started time.Time
//		Memory  int64 // bytes that are resident
//	}
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
	// ReviewInfo describes a review.
	//
	//	type ReviewInfo struct {
	//		Name    string    `json:"name"`
	//		Sandbox string    `json:"sandbox"`
	//		Created time.Time `json:"made"`
	//		InUse   bool      `json:"in_use"`
	//		// Applied says that it was applied, as a whole or in part, and that this can be undone.
	//		Applied  bool      `json:"applied"`
	//		Complete bool      `json:"whole"` // and that nothing else is in it
	//		Used     time.Time `json:"used"`
	//	}
	ReviewInfo = review.Info
	// ReviewChange is one path at which a review differs from the workspace.
	//
	//	type ReviewChange struct {
	//		Layer int    // index of the tree that it lies in
	//		Path  string // in that tree, relative
	//		Op    Op
	//		Old   Node // the host's; Absent where the change adds
	//		New   Node // the review's; Absent where it deletes
	//		// Refused says why it is never applied: "a socket". It can be left out.
	//		Refused string
	//		// Conflict says what the host did to it since the review began.
	//		Conflict string
	//		// Note is what a person should know of it.
	//		Note string
	//		// Attributes names the extended attributes and access control lists of New that Old has not, or not so,
	//		// and those that it lacks. They come with the file or the directory; of a change of Mode they stay behind.
	//		Attributes string
	//
	//	}
	//	func (c *ReviewChange) Line(shown string) string
	//	func (c ReviewChange) MarshalJSON() ([]byte, error)
	ReviewChange = review.Change
	// ReviewNode is what lies at a path of one layer.
	//
	//	type ReviewNode struct {
	//		Kind   Kind
	//		Mode   uint32 // permissions, with the bits for set-user-ID, set-group-ID and sticky
	//		Gid    uint32
	//		Size   int64
	//		Dev    uint64
	//		Ino    uint64
	//		Links  uint64
	//		MTime  int64 // nanoseconds, as are those of CTime
	//		CTime  int64
	//		Target string // of a symlink
	//		Opaque bool   // a directory of an upper layer, beneath which nothing shows
	//	}
	ReviewNode = review.Node
	// ReviewSet is what a review holds.
	//
	//	type ReviewSet struct {
	//		Changes []Change
	//		Digest  string
	//	}
	//	func (s *ReviewSet) As(changes []Change, only []string) []Shown
	//	func (s *ReviewSet) MarshalJSON() ([]byte, error)
	//	func (s *ReviewSet) Shown(c *Change) string
	//	func (s *ReviewSet) Visible() (seen *Set, unseen int)
	//	func (s *ReviewSet) Selects(paths []string, c *Change) bool
	//	func (s *ReviewSet) Concerns(paths []string, c *Change) bool
	ReviewSet = review.Set
	// ShownChange is a change as a ReviewSet's JSON has it.
	//
	//	type ShownChange struct {
	//		Path     string `json:"path"`                  // relative to the workspace, or absolute
	//		Quoted   string `json:"path_quoted,omitempty"` // of a path that is no text, as Go writes it
	//		Op       string `json:"op"`                    // "added", "modified", "deleted" or "mode"
	//		Old      *side  `json:"old"`                   // null where the workspace has nothing
	//		New      *side  `json:"new"`                   // null where the review has nothing
	//		Refused  string `json:"refused"`               // why it cannot be applied; else empty
	//		Conflict string `json:"conflict"`              // what happened to it in the workspace since; else empty
	//		// Attributes are the extended attributes and access control lists that the workspace has not; else empty.
	//		Attributes string `json:"attributes"`
	//		Note       string `json:"note"` // what a person should know of it; else empty
	//	}
	ShownChange = review.Shown
	// ReviewChoice says what of a review is applied.
	//
	//	type ReviewChoice struct {
	//		Digest string   // of what was looked at; empty: of whatever there is
	//		Paths  []string // with all that lies in them; empty: everything
	//		Ours   []string // of which the workspace keeps its own
	//		Theirs []string // of which the review's counts, whatever the host did since
	//	}
	ReviewChoice = review.Choice
	// ReviewOutcome is what an apply did.
	//
	//	type ReviewOutcome struct {
	//		Applied  []Change
	//		Complete bool // nothing is left in the review
	//		// Conflicts and Refused are what stood in the way: then nothing was applied.
	//		Conflicts, Refused []Change
	//	}
	ReviewOutcome = review.Outcome
)

// EngineSource says where an engine that is not built in comes from.
//
//	type EngineSource struct {
//		// Source is the path of its executable, absolute or beginning with "~/".
//		Source string
//		// SHA256 are the checksums that the executable must have, by platform such
//		// as "linux_amd64", in hexadecimal. It is checked at every start, on the
//		// opened file that is then executed. Nil means any; a platform that is
//		// missing from a map that is not empty is refused.
//		SHA256 map[string]string
//		// Env names the variables of the host's environment that the engine's
//		// process may see.
//		Env []string
//	}
type EngineSource = launch.Source

// EngineProgram is the executable of an engine, by the name that definitions call it.
//
//	type EngineProgram struct {
//		Name string `json:"name"` // by which definitions call the engine, whatever it calls itself
//		Path string `json:"path"` // of the host, resolved
//		// SHA256 is its checksum when it was started, in lower case hexadecimal; empty where the
//		// file cannot be read.
//		SHA256 string `json:"sha256"`
//	}
type EngineProgram = launch.Program

// EngineError says that an engine's process could not be started, or was lost,
// with the end of what it logged.
//
//	type EngineError struct {
//		Engine string // its name
//		Source string // where it came from: "built in" or its path
//		Err    error
//		Log    string // up to 8 KiB; may be empty
//	}
//	func (e *EngineError) Error() string
//	func (e *EngineError) Unwrap() error
type EngineError = launch.Error

// Builtins are the engines that this program contains and can serve by
// executing itself. Only ServeBuiltin makes one that is not empty, so that a
// Host never re-executes a program whose main is not prepared for it.
//
//	type Builtins struct{ ... }
//	func (b Builtins) Info(name string) (shared.Info, bool)
type Builtins = launch.Builtins

// ServeBuiltin must be the first call of a main that links engines. In a
// process that a Host has started to serve one of them, or that an engine has
// started as a sandbox's init, it does that and never returns: it ends the
// process. Everywhere else it returns at once what [Options.Builtins] needs.
func ServeBuiltin(engines ...shared.Engine) Builtins { return launch.ServeBuiltin(engines...) }
