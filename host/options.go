package host

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// Options make a Host. The zero value has one sandbox, "default", which isolates with the
// platform's engine.
type Options struct {
	// Sandboxes are the definitions by name. Empty means "default" alone.
	Sandboxes map[string]Definition
	// DefaultSandbox is the sandbox of a command that names none. Empty means the only sandbox in
	// Sandboxes.
	DefaultSandbox string
	// OtherBinds are binds of definitions that are not in Sandboxes, but used elsewhere. Their
	// commands could write a program there, so this Host does not run programs from there outside
	// of sandboxes.
	OtherBinds []Bind
	// Workspace is the tree that commands work on.
	Workspace WorkspaceOptions
	// Session is what commands share.
	Session SessionOptions
	// EnginesOnly makes a Host that only answers questions about engines. It needs no workspace.
	EnginesOnly bool

	// OneShot is for a program that runs one command and ends. Without it, some engines keep an
	// empty sandbox for the next command of each definition; see shared.Spec.Prepare.
	OneShot bool

	// Builtins are the engines that this program serves by executing itself; see ServeBuiltin.
	Builtins Builtins
	// EngineDir is the directory of executables named sbxhost-engine-NAME, which start faster than
	// the re-executed program. Empty means the directory of the running program, and there only
	// this project's engines and those of Builtins.
	EngineDir string
	// Engines are other engines, by name. An entry with a built-in engine's name replaces it. The
	// Host refuses an executable that commands could write.
	Engines map[string]EngineSource
	// Inject are engines that run in this process, by name, before all others: for tests, and for
	// programs with their own engines. One that needs the init finds it only if main called
	// ServeBuiltin or sandboxinit.Hook.
	Inject map[string]shared.Engine

	// Credentials are sets for Definition.Credentials, by name, besides the built-in ones. A
	// built-in name may only set Pass.
	Credentials map[string]Credential

	// Approvals decide about commands that would run without a sandbox.
	Approvals ApprovalOptions
	// Approver asks a person about such a command; nil denies.
	Approver Approver
	// AuditLog is the absolute path of the log of decisions and ends; empty means none. A command
	// that cannot be logged does not run.
	AuditLog string
	// Record, if set, receives the lines of the log, also without a log: JSON and a newline, each
	// decision before the command runs, and each end before Wait returns. Times are those of the
	// calls. Several goroutines may call it. After an error the command does not run. See
	// docs/policy.md.
	Record func(line []byte) error

	// Protected are host files that no command may write, even in a writable bind: the
	// configuration in force.
	Protected []string
	// TrustChecked are further ones. The program checks them before it obeys them, so commands run
	// even if an engine cannot protect them.
	TrustChecked []string
	// HideSensitive hides files that look as if they held secrets: .env, and names that begin with
	// ".env.". Otherwise Explain lists them.
	HideSensitive bool
	// Environ is the caller's environment. With nil, New reads this process's.
	Environ []string
	// Dir is the directory of commands without a Dir, if it is in the workspace. If it is empty or
	// relative, New reads the current directory.
	Dir string
	// Linger is how long stubs for protected paths that do not exist (empty files and directories)
	// stay in the workspace after a command, for the next one. Zero means 100 milliseconds,
	// negative not at all. Close removes them in any case.
	Linger time.Duration
	// Usage, if set, has the process attributes that engines take over, in a program that runs
	// commands for other processes; nil means this process's. Only engines in Go, with package
	// shared, take them over.
	Usage *wire.Usage
	// StartTimeout bounds the start of an engine's process; zero means 10 seconds.
	StartTimeout time.Duration
	// Logger receives the logs of the host and its engines; nil discards them.
	Logger hclog.Logger
}
