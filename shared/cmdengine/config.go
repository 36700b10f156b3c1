package cmdengine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// Config is an engine. Only Info and Launch, or Begin, are needed. The functions are
// called from many goroutines at once; what they are given is theirs to read
// and, but for the Spec in Open, not to change.
type Config struct {
	// Info says what the engine is. Open refuses what its Features lack.
	Info shared.Info

	// Probe finds out whether the engine works here. Nil is always ready.
	Probe func(ctx context.Context) (shared.Probe, error)

	// Open looks at a Spec after its form and the features that it needs have
	// been checked. It may normalise the Spec, which is a copy. Nil accepts.
	// An engine without Info.Options need not look at Spec.Options: there are none.
	Open func(ctx context.Context, spec *shared.Spec) error

	// Attach makes, after Open, what the engine keeps for one sandbox. Nil keeps
	// nothing. The Spec is the sandbox's own and stays as it is.
	Attach func(ctx context.Context, spec *shared.Spec) (*Attachment, error)

	// Launch translates, and does nothing else but open ExtraFiles. Of the
	// result Path, Args, Env, Dir, ExtraFiles, SysProcAttr and Err count.
	//
	// Without Init it is the whole command line, with Env and Dir as they shall
	// be. An empty Path says that Args[0] is the command itself: it is looked up in
	// the PATH of Env. A Script has been turned into Args for its shell. A
	// long one is read from fd 9, so no more than six ExtraFiles fit.
	//
	// With Init, Args end where the init's words are to be appended, such as
	// {"bwrap", "--args", "3", "--"}, Path is absolute, and Dir and Env do not
	// count: the launcher's environment is Environ.
	//
	// ExtraFiles are the launcher's own descriptors, numbered from 3; they are
	// closed once the launcher has started or failed to.
	Launch func(spec *shared.Spec, cmd *shared.Command) (*exec.Cmd, error)

	// Begin takes the place of Launch in an engine whose sandboxes are made by
	// somebody else, such as a daemon. It starts the command and gives what the
	// rest of this package needs to see it to its end. stdio has no nil files and
	// stays the caller's; the events are told first, and emit tells of more until Run.Wait
	// has returned. When ctx ends, what was begun must end, too. Init and Diagnose do not count, and
	// Plan is needed.
	Begin func(ctx context.Context, spec *shared.Spec, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (Run, []shared.Event, error)

	// Plan says what Start would do. Where it is nil, or its Plan has no Argv,
	// the command line is the one that Launch gives, with the init's words as
	// [PlannedInit] shows them.
	Plan func(spec *shared.Spec, cmd *shared.Command) (shared.Plan, error)

	// Init runs the command through package sandboxinit inside the launcher,
	// which must let descriptors through to it. The init holds the limit of open files, and has no core dumped.
	Init bool

	// Environ is, with Init, the launcher's environment. Nil is empty. It is the engine's own
	// choice, such as HOME for a container CLI, and never holds a command's variables, which
	// would be read outside the sandbox. It does not count where a [Spawner] starts the launcher.
	Environ []string

	// ClearsUp says, with Init, that the launcher keeps a record outside of its
	// processes of what it starts, as container CLIs do, and removes it at the end. It is
	// then not killed while it may be at work, when the engine dies either: the
	// init, whose line is closed, ends the command, and the launcher what is left. It must
	// not need the engine for that. One that takes longer than 20 seconds is killed.
	ClearsUp bool

	// NoPIDNamespace says, with Init, that the launcher makes no pid namespace. The end of the
	// launcher then ends nothing: the init is left to kill all that the command has started, when
	// the engine dies, too. A fork bomb can outrun it, and what kills the init
	// frees the rest, so New refuses [shared.FeatureProcessesHidden] with it.
	NoPIDNamespace bool

	// Filter gives, with Init, the program for system calls that the init loads for
	// the command, on top of what the launcher has loaded: package seccomp's, for
	// one. Nil loads none. It is asked in Open, whose error it may give.
	Filter func(spec *shared.Spec) ([]byte, error)

	// Trace gives, with Init, the program that stops a command with Trace at the calls of package
	// traced: package seccomp's. Its error says why a sandbox cannot have one. It is needed for
	// [shared.FeatureTrace].
	Trace func(spec *shared.Spec) ([]byte, error)

	// HoldLimits keeps Memory, CPUs and PIDs of a Spec's Limits, with Init: by a
	// control group where this machine lets the engine have one (package cgroup), which
	// holds them for the whole tree of a command, else by rlimits for each process by
	// itself. Open refuses what is not held and not best effort, so that an engine
	// can list the features; events and plans name the mechanism. Without it an engine
	// sees to these limits itself.
	HoldLimits bool

	// Diagnose explains, with Init, why the launcher ended before the init had
	// been heard of: stderr is the end of what it wrote, status how it ended, nil
	// where that is not known. A nil function or result is an ErrUnavailable that
	// quotes stderr; with [ErrAgain] the command is tried once more.
	Diagnose func(ctx context.Context, stderr string, status *syscall.WaitStatus) error

	// Attend follows a command, without Init: it is called with what Launch gave
	// once that has been started, and may emit events until what it returns is
	// called, which is when the command and its process group are gone. Where
	// the command could not be started, emit is nil and the end follows at once. It
	// is for what lasts as long as a command, such as a file that its launcher reads.
	Attend func(launched *exec.Cmd, emit func(shared.Event)) (ended func())
}

// New makes the engine. It panics if c has none of Launch, Begin with Plan, and
// Attach, of which one must give or start a command line, and if its Features have hidden processes without a
// pid namespace. Whether the engine holds what it claims is for package enginetest to find. The engine is for as long as
// the process lives: the thread that forks for it, which its first command
// starts, does not end.
func New(c Config) shared.Engine {
	if c.Launch == nil && c.Attach == nil && (c.Begin == nil || c.Plan == nil) {
		panic(fmt.Sprintf("cmdengine.New: the Config of engine %q starts no command: set Launch; or Attach, where a client of a daemon does; or Begin and Plan", c.Info.Name))
	}
	if c.NoPIDNamespace && c.Info.Features.Has(shared.FeatureProcessesHidden) {
		panic(fmt.Sprintf("cmdengine.New: the Info of engine %q claims %s, and its Config sets NoPIDNamespace, so that a command that kills the init leaves processes behind: take one of the two out",
			c.Info.Name, shared.FeatureProcessesHidden))
	}
	return &engine{config: c, forker: newForker()}
}

// initEnds says that the init, and not the end of its launcher, ends what the command has
// started.
func (c *Config) initEnds() bool { return c.ClearsUp || c.NoPIDNamespace }

// PlannedInit is how a Plan shows the words that follow those of Launch when
// Config.Init is set.
func PlannedInit() []string {
	words := sandboxinit.Argv(0, 0)
	words[0] = "<init>"
	words[len(words)-1] = "<control>"
	return words
}
