package host

import (
	"encoding/json"
	"time"
)

// Definition is one sandbox as its author wrote it: paths may be relative to
// the workspace or begin with "~/", and what is left out has the documented
// default. It maps one to one to a `sandbox` block of a configuration file.
// The zero value isolates with the platform's engine: no network, nothing of
// the host but the curated operating system files and the workspace.
type Definition struct {
	// Engine is "auto" (also ""), a built-in engine's name, or that of an
	// entry in Options.Engines or Options.Inject.
	Engine string
	// Fallback says what happens when the engine cannot run here: "deny" or
	// "approve". Empty means approve for auto and deny for a named engine.
	Fallback string
	// Network gives the command the host's network.
	Network bool
	// Filesystem is "minimal" (also "") or "host"; see shared.Filesystem.
	Filesystem string
	// ReadOnly makes the workspace itself read-only.
	ReadOnly bool
	// Workdir is where the workspace lies inside: "host" (also "") for its own
	// path, or an absolute path such as "/workspace".
	Workdir string
	// BindPaths are further host paths to show.
	BindPaths []Bind
	// DenyPaths are paths and patterns that are hidden, as package glob has them:
	// absolute, beginning with "~/", or relative to the workspace's root - and
	// where they begin with "**/", to all that is shown. A path without wildcards
	// that does not exist cannot be created. They win over everything else.
	DenyPaths []string
	// ProtectPaths are paths and patterns, likewise, that cannot be written.
	ProtectPaths []string
	// ProtectPathsExcept are names among DefaultProtected that may be written.
	ProtectPathsExcept []string
	// UnixSockets are socket files that commands may connect to. All others in
	// what is shown are hidden. One that nothing else shows is shown at its path.
	UnixSockets []string
	// EnvPassthrough are names and globs of variables to pass on.
	EnvPassthrough []string
	// Env are variables to set, the only way to set one that is on the
	// denylist of variables that inject code.
	Env map[string]string
	// Credentials are names of credential sets to pass on.
	Credentials []string
	// Limits bound each command.
	Limits Limits
	// Config is a JSON object of the engine's own options; nil means none. With
	// the engine "auto" they are those of docker, where that is declared, and
	// the platform's engine has its defaults.
	Config json.RawMessage
}

// Bind shows a host path inside. The zero value of its booleans is the strict
// one: read-only, and an error when the path is missing.
type Bind struct {
	Host      string
	Container string // absolute path inside; empty means Host's resolved path
	Writable  bool
	Optional  bool // a missing Host is skipped
}

// Limits bound each command; zero means unlimited.
type Limits struct {
	Timeout   time.Duration
	Grace     time.Duration // between SIGTERM and the kill; zero means DefaultGrace
	Memory    uint64        // bytes
	CPUs      float64       // processors' worth of time
	PIDs      uint64
	OpenFiles uint64 // a process
	TempSize  uint64 // bytes; see SessionOptions for what lasts
	// Enforce is "required" (also ""), which refuses what nothing here can
	// hold, or "best_effort", which reports it.
	Enforce string
}

// DefaultGrace is how long a command that is timed out or cancelled has to
// act on SIGTERM.
const DefaultGrace = 5 * time.Second

// WorkspaceOptions choose the directory tree that commands work on.
type WorkspaceOptions struct {
	// Root is the project's directory. Empty means the git top level above the
	// current directory, or the current directory where there is none. The git
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
	// ControlSockets are socket files that are never shown, nor a directory above
	// them, besides those that are known: absolute paths.
	ControlSockets []string
	// Env are variables set in every command. Nil means those of the git
	// identity in force at Root, conditional includes counted, if Root lies in a
	// repository: GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and
	// GIT_COMMITTER_EMAIL. It is looked up once, when a command first needs it.
	Env map[string]string
}

// EngineSource says where an engine that is not built in comes from.
type EngineSource struct {
	// Source is the path of its executable, absolute or beginning with "~/".
	Source string
	// SHA256 are the checksums that the executable must have, by platform such
	// as "linux_amd64", in hexadecimal. It is checked at every start, on the
	// opened file that is then executed. Nil means any; a platform that is
	// missing from a map that is not empty is refused.
	SHA256 map[string]string
	// Env names the variables of the host's environment that the engine's
	// process may see.
	Env []string
	// Args are further arguments of its command line.
	Args []string
}
