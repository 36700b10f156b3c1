package cmdengine

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// Config is an engine. Only Info is required, and Launch or Attach. Many goroutines may call the
// functions at once. They may read their arguments but not change them, except the Spec in Open.
type Config struct {
	// Info describes the engine. Open refuses a Spec that needs other Features.
	Info shared.Info

	// Probe finds out whether the engine works here. Nil means always ready.
	Probe func(ctx context.Context) (shared.Probe, error)

	// Open checks a Spec whose form and features are already checked. It may normalise the Spec,
	// which is a copy with a Table of its own; it must not change other lists, but may replace them.
	// Nil accepts all. Without Info.Options, Spec.Options is empty.
	Open func(ctx context.Context, spec *shared.Spec) error

	// Attach makes, after Open, what the engine keeps for one sandbox. Nil keeps nothing. The Spec
	// belongs to the sandbox and does not change.
	Attach func(ctx context.Context, spec *shared.Spec) (*Attachment, error)

	// Launch translates. It may look at the host's files, and open ExtraFiles, and does nothing
	// else. Only Path, Args, Env, Dir, ExtraFiles, SysProcAttr and Err of the result are used.
	//
	// Without Init it is the whole command line, with the final Env and Dir. If Path is empty,
	// Args[0] is the command itself, and the PATH of Env finds it. A Script is already Args for its
	// shell. A long one is read from fd 9, so at most six ExtraFiles fit.
	//
	// With Init, the init's words follow Args, as in {"bwrap", "--args", "3", "--"}. Path is
	// absolute. Dir and Env are ignored: the launcher's environment is Environ.
	//
	// ExtraFiles are the launcher's own descriptors, from 3. They are closed after the launcher's
	// start.
	Launch func(spec *shared.Spec, cmd *shared.Command) (*exec.Cmd, error)

	// Plan returns what Start would do. If it is nil, or its Plan has no Argv, the command line is
	// Launch's, with the init's words from [PlannedInit].
	Plan func(spec *shared.Spec, cmd *shared.Command) (shared.Plan, error)

	// Init runs the command through package sandboxinit inside the launcher, which must pass
	// descriptors to it. The init is the engine's own program, executed as /proc/self/fd/N
	// sbxhost-init: main must reach [shared.Serve] there, or a test's main enginetest.Main, and
	// /proc must be mounted inside. The launcher may be that program too, with SysProcAttr; then
	// main must look for the launcher's own words first. The init sets the limit of open files, and prevents core dumps.
	Init bool

	// Environ is, with Init, the launcher's environment; nil is empty. It is the engine's own
	// choice, such as HOME for a container CLI. It never holds a command's variables, which the
	// launcher would read outside of the sandbox. A [Spawner] ignores it.
	Environ []string

	// ClearsUp says, with Init, that the launcher records what it starts outside of its processes,
	// as container CLIs do, and removes the record at the end. So the engine does not kill it while
	// it may do that, and it outlives a dead engine: the init, whose control socket closes, ends
	// the command, and the launcher removes the rest without the engine. After 20 seconds the
	// engine kills it.
	ClearsUp bool

	// NoPIDNamespace says, with Init, that the launcher makes no pid namespace. Then the launcher's
	// end ends no process: the init must kill all that the command started, also if the engine
	// dies. A fork bomb can be faster than the init, and a process that kills the init frees the
	// rest. So New refuses [shared.FeatureProcessesHidden] with it.
	NoPIDNamespace bool

	// Filter returns, with Init, the program for system calls that the init loads for the command,
	// in addition to the launcher's; package seccomp makes one. Nil loads none. Open calls it, and
	// returns its error.
	Filter func(spec *shared.Spec) ([]byte, error)

	// Trace returns, with Init, the program that stops a command with Trace at the calls of package
	// traced; package seccomp makes one. Its error says why a sandbox cannot have one.
	// [shared.FeatureTrace] needs it.
	Trace func(spec *shared.Spec) ([]byte, error)

	// HoldLimits enforces Memory, CPUs and PIDs of a Spec's Limits, with Init: by a control group
	// for the command's whole tree if this machine permits one (package cgroup), else by rlimits
	// for each process. Open refuses limits that are not enforced, unless they are best effort, so
	// an engine can claim the features; events and plans name the mechanism. Without HoldLimits,
	// the engine enforces these limits itself.
	HoldLimits bool

	// HomeOfCommand says that each command has its own home. Events and plans report that to commands of a
	// session, which should share it.
	HomeOfCommand bool

	// Diagnose explains, with Init, why the launcher ended before the init answered. stderr is its
	// output, at most 1 MiB, and status its end; without a known end it is not called. A nil function
	// or result is an ErrUnavailable that quotes stderr. After [ErrAgain] the command is started once more.
	Diagnose func(stderr string, status *syscall.WaitStatus) error
}

// New makes the engine. It panics if c cannot start a command (it needs Launch or Attach), or if its
// Features claim hidden processes without a pid namespace. Package enginetest checks the engine's
// claims.
func New(c Config) shared.Engine {
	if c.Launch == nil && c.Attach == nil {
		panic(fmt.Sprintf("cmdengine.New: the Config of engine %q starts no command: set Launch or Attach", c.Info.Name))
	}
	if c.NoPIDNamespace && c.Info.Features.Has(shared.FeatureProcessesHidden) {
		panic(fmt.Sprintf("cmdengine.New: the Info of engine %q claims %s, and its Config sets NoPIDNamespace, so that a command that kills the init leaves processes behind: take one of the two out",
			c.Info.Name, shared.FeatureProcessesHidden))
	}
	return &engine{config: c, limitHost: sync.OnceValue(limitHost), sessions: map[string]*persistentSession{}}
}

// initEnds says that the init, not the end of its launcher, ends what the command started.
func (c *Config) initEnds() bool { return c.ClearsUp || c.NoPIDNamespace }

// PlannedInit is a Plan's text for the words that follow Launch's, with Config.Init.
func PlannedInit() []string {
	words := sandboxinit.Argv(0, 0)
	words[0] = "<init>"
	words[len(words)-1] = "<control>"
	return words
}
