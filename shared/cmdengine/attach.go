//go:build unix

package cmdengine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/holder"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// An Attachment is what an engine keeps for one open sandbox. Its functions are
// called from many goroutines at once; a nil one is the Config's.
type Attachment struct {
	// Launch is as [Config.Launch].
	Launch func(ctx context.Context, cmd *shared.Command) (*Launch, error)
	// Prepares says that what Launch gives has Same, mostly.
	Prepares bool
	// Plan is as in Config.
	Plan func(cmd *shared.Command) (shared.Plan, error)
	// Events are told when a command has started: what is degraded, which
	// mechanism holds a limit. Times are filled in. What Features lack the host tells itself
	// (see [shared.Spec.Without]).
	Events func(cmd *shared.Command) []shared.Event
	// Fresh is a directory inside, of memory that each command has for itself, with
	// [Config.Init]: an event tells how many files a command has left there. "" is none.
	Fresh string
	// Diagnose is as in Config.
	Diagnose func(ctx context.Context, stderr string, status *syscall.WaitStatus) error
	// Close is called once, when the last command of the sandbox is gone.
	Close func()
}

// A Launch says how a launcher is started.
type Launch struct {
	*exec.Cmd // as of [Config.Launch]
	// Spawn, with [Config.Init], starts what Path and the words say in the engine's stead, if
	// it is not nil. With an empty Path there is no launcher: the words are the init's own.
	Spawn Spawner
	// Sandbox, with Spawn and no Path, is what the init makes itself, and Unmade explains
	// why it could not; see [sandboxinit.MakingArgv].
	Sandbox *holder.Sandbox
	Unmade  func(*holder.MountError) error
	// Waits says that Path is the init's own, of [sandboxinit.Argv], so that there is no launcher.
	Waits bool
	// Same, with Sandbox or Waits, reports whether an init that Spawn has started for an earlier
	// Launch can serve this one. With nil no sandbox is made beforehand.
	Same func(ctx context.Context, earlier Launched) bool
	// Shared, with Sandbox, gives Spawn and Sandbox for a Session with Processes: first is the
	// init that is pid 1 for the others, nil where it is that which is to be started.
	Shared func(first Launched) (Spawner, *holder.Sandbox)
	first  *insideRun // pid 1 of the kept session that this is a member of

	// Gate, with [Config.Init], begins before the command what passes connections between its
	// network and the host's, with sockets from inside. emit tells of them. end is called once
	// everything of the command is gone, and returns when nothing more is told.
	Gate func(ctx context.Context, sockets *sandboxinit.Sockets, emit func(shared.Event)) (end func(), err error)
	// Mounts, with [Config.Init], are as of [sandboxinit.Command]. Where one is not
	// in its place all is tried once more.
	Mounts []sandboxinit.Mount
	// Inside, with [Config.Init], completes what the init is told of the command: what it is
	// kept from by Landlock, and what its variables have to name for that.
	Inside func(*sandboxinit.Command) error
	// Ended, with [Config.Init], is called when all that the command has started is gone, or it
	// could not be started.
	Ended func()
}

// ErrAgain is what Diagnose returns where Launch will give another command line now
// that it is known why this one failed, or where the same may well do: the command
// is tried once more, and no second time.
var ErrAgain = errors.New("try another command line")

// A Spawner starts a launcher with exactly these descriptors, from 0 on, an
// empty environment and / as its directory. The launcher must die with the
// engine. It may be born in the control group of version 2 whose directory group is, unless
// that is nil: the engine moves one that was not, which costs some milliseconds. The error, if
// it is the caller's to read, is a [shared.Error].
type Spawner func(ctx context.Context, path string, argv []string, files []*os.File, group *os.File) (Launched, error)

// Launched is a launcher that runs.
type Launched interface {
	// Pid is its number, while it runs.
	Pid() int
	// Kill kills it and does not wait. Its methods may be called at once.
	Kill() error
	// Wait waits until it is gone, and is called once. The error says why nobody knows
	// how it ended.
	Wait() (syscall.WaitStatus, error)
}

// forked is a launcher that is the engine's own child.
type forked struct{ *os.Process }

func (f forked) Pid() int { return f.Process.Pid }

func (f forked) Wait() (syscall.WaitStatus, error) {
	state, err := f.Process.Wait()
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

func (s *sandbox) command(ctx context.Context, cmd *shared.Command) (*Launch, error) {
	l := &Launch{}
	var err error
	if s.attached.Launch != nil {
		l, err = s.attached.Launch(ctx, cmd)
	} else {
		l.Cmd, err = s.engine.config.Launch(&s.spec, cmd)
	}
	if err == nil && (l == nil || l.Cmd == nil) {
		// An author's oversight in one case must not end the commands of all others.
		err = errors.New("the engine's Launch gave neither a command line nor an error")
	}
	return l, err
}

func (s *sandbox) diagnosis() func(context.Context, string, *syscall.WaitStatus) error {
	if s.attached.Diagnose != nil {
		return s.attached.Diagnose
	}
	return s.engine.config.Diagnose
}

func (s *sandbox) planned(cmd *shared.Command) (shared.Plan, error) {
	switch {
	case s.attached.Plan != nil:
		return s.attached.Plan(cmd)
	case s.engine.config.Plan != nil:
		return s.engine.config.Plan(&s.spec, cmd)
	}
	return shared.Plan{}, nil
}

func (s *sandbox) told(cmd *shared.Command) []shared.Event {
	if s.attached.Events == nil {
		return nil
	}
	return s.attached.Events(cmd)
}
