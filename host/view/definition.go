package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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
	// Fallback says what happens when the engine cannot run here. Empty means
	// approve for auto and deny for a named engine.
	Fallback Fallback
	// Network gives the command the host's network.
	Network bool
	// Filesystem is what lies beneath; empty means minimal.
	Filesystem Filesystem
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
	// Git says whether what git obeys can be written; empty means protected.
	Git Git
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
	// Enforce says what becomes of a limit that nothing here can hold; empty means required.
	Enforce Enforce
}

// What these attributes can say.
type (
	Fallback   string
	Filesystem string
	Git        string
	Enforce    string
)

const (
	FallbackDeny    Fallback = "deny"    // nothing runs
	FallbackApprove Fallback = "approve" // a person may approve a run without the sandbox

	FilesystemMinimal Filesystem = "minimal" // a curated operating system; see shared.Filesystem
	FilesystemHost    Filesystem = "host"    // all of the host's files, read-only

	GitProtected Git = "protected" // not the hooks, the configuration and the like
	// GitFull gives that up: a Report lists the hooks, and the settings that run commands, which
	// have changed. Worktrees elsewhere are protected all the same.
	GitFull Git = "full"

	EnforceRequired   Enforce = "required"    // the command is refused
	EnforceBestEffort Enforce = "best_effort" // it runs, and the Report says what was not held
)

// Validate reports, by its attribute, what means nothing on any machine. A Host is not made
// with such a definition.
func (d *Definition) Validate() error {
	l := &d.Limits
	for _, limit := range []struct {
		attribute string
		negative  bool
	}{{"timeout", l.Timeout < 0}, {"grace", l.Grace < 0}, {"cpus", !(l.CPUs >= 0)}} {
		if limit.negative {
			return Invalid("limits."+limit.attribute, "it is negative", "leave it out for none")
		}
	}
	return cmp.Or(oneOf("fallback", d.Fallback, FallbackDeny, FallbackApprove), oneOf("filesystem", d.Filesystem, FilesystemMinimal, FilesystemHost),
		oneOf("git", d.Git, GitProtected, GitFull), oneOf("limits.enforce", l.Enforce, EnforceRequired, EnforceBestEffort))
}

func oneOf[S ~string](attribute string, value S, known ...S) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return Invalid(attribute, fmt.Sprintf("unknown value %q", value), fmt.Sprintf("use %q or %q", known[0], known[1]))
}

// DefaultGrace is how long a command that is timed out or cancelled has to
// act on SIGTERM.
const DefaultGrace = 5 * time.Second

// Sensitive says what happens to files that look as if they held secrets: those
// named .env, and those whose names begin with ".env.".
type Sensitive struct {
	// Deny hides them from every confined command.
	Deny bool
	// Harmless are exact names that are let pass, such as ".env.example".
	Harmless []string
}

// The credential sets that a definition can name.
const (
	// CredentialGitHub passes GITHUB_TOKEN and GH_TOKEN as they are set, and
	// has git authenticate by it over https, to GitHub alone.
	CredentialGitHub = "github"
	// CredentialGitHubCLI is CredentialGitHub, with the token that `gh auth
	// token` gives where neither variable is set.
	CredentialGitHubCLI = "github-cli"
	// CredentialSSHAgent shows the socket of SSH_AUTH_SOCK, and no key: what a
	// command can do with it is to sign while it runs.
	CredentialSSHAgent = "ssh-agent"
)

// Credentials lists the names of the credential sets.
func Credentials() []string {
	return []string{CredentialGitHub, CredentialGitHubCLI, CredentialSSHAgent}
}
