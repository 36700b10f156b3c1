package host

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// Options make a Host. The zero value has one sandbox, "default", which
// isolates with the platform's engine.
type Options struct {
	// Sandboxes are the definitions by name. Empty means the one above.
	Sandboxes map[string]Definition
	// DefaultSandbox is used where a caller names none. Empty means the only
	// sandbox there is.
	DefaultSandbox string
	// OtherBinds are those of definitions that are not in Sandboxes, and are used elsewhere: commands of
	// theirs can have put a program there that this Host would run outside of sandboxes.
	OtherBinds []Bind
	// Workspace is what commands work on.
	Workspace WorkspaceOptions
	// Session is what commands share.
	Session SessionOptions
	// EnginesOnly makes a Host that answers questions about engines and runs
	// nothing, for which it needs no workspace.
	EnginesOnly bool

	// OneShot says that this program runs one command and ends: no empty sandbox is
	// kept for a next one. Without it, an engine that can keeps one for each definition
	// in use, once a command of it has ended; see shared.Spec.Prepare.
	OneShot bool

	// Builtins are the engines that this program serves by executing itself;
	// see ServeBuiltin.
	Builtins Builtins
	// EngineDir is where executables of engines by the name of
	// sbxhost-engine-NAME are looked for; they start faster than a re-executed
	// program. Empty means the directory of the running program, for the engines
	// of this project and those of Builtins alone.
	EngineDir string
	// Engines are engines from elsewhere, by name. One that has the name of a
	// built-in engine takes its place. None is started from where commands can
	// write.
	Engines map[string]EngineSource
	// Reattach are engines that run already, started with -debug, by name; they
	// take the place of all but injected ones. See wire.ReattachEnv.
	Reattach map[string]wire.Reattach
	// Inject are engines that run inside this process, by name, ahead of all
	// others: for tests, and for embedders with engines of their own. An
	// injected engine that needs the init finds it only if main called
	// ServeBuiltin or sandboxinit.Hook.
	Inject map[string]shared.Engine

	// Credentials are sets for Definition.Credentials, by name, besides those that are
	// built in. Of a built-in one, Pass may be said here.
	Credentials map[string]Credential

	// Approvals say what becomes of commands that would run without a sandbox.
	Approvals ApprovalOptions
	// Approver asks a person about one of those; nil denies.
	Approver Approver
	// AuditLog is the file of a log of decisions and ends, absolute; empty means none. A
	// command that cannot be logged does not run.
	AuditLog string
	// Record, if set, is called with each of those decisions and ends, whether there is a
	// log or not: before the command runs, and before Wait returns. Calls may come from
	// several goroutines. An error keeps the command from running. A record's Command joins the
	// end to the decision, TraceParent both to the
	// trace that the command is part of.
	Record func(AuditRecord) error

	// Protected are host files that no command may write, whatever is bound:
	// the configuration in force.
	Protected []string
	// TrustChecked says that another text of these would not be obeyed: commands run although
	// an engine cannot protect them.
	TrustChecked bool
	// HideSensitive hides files that look as if they held secrets, which Explain names
	// otherwise: those named .env, and those whose names begin with ".env.".
	HideSensitive bool
	// Environ is the caller's environment. Nil means that of this process, which New
	// then reads.
	Environ []string
	// Dir is the directory that commands without a Dir run in, if it lies in
	// the workspace. Empty means the current directory, which New then reads; so it
	// does for a path that is not absolute.
	Dir string
	// Linger is how long what holds the places of protected paths that do not
	// exist - empty files and directories - stays in the workspace after a
	// command, for the next one. Zero means 100 milliseconds, negative not at all.
	// Close removes it in any case.
	Linger time.Duration
	// Usage, if set, is what engines take over of whom the commands are for, in a program that runs them for
	// other processes: nil is what this process has. An engine that is not written in Go, by this project's
	// package shared, takes nothing over.
	Usage *wire.Usage
	// StartTimeout bounds the start of an engine's process; zero means 10
	// seconds.
	StartTimeout time.Duration
	// Logger receives what the host and its engines log; nil discards it.
	Logger hclog.Logger
}
