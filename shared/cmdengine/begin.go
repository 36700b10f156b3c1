//go:build unix

package cmdengine

import (
	"context"
	"os"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// A Run is a command that runs, such as one that [Config.Begin] has started. Its methods
// are called from several goroutines. One that has a method Usage() [shared.Usage], as
// [InitRun] has, is asked for it once Wait has returned.
type Run interface {
	// Wait returns once the command and all it has started are gone. It is
	// called once.
	Wait() (shared.ExitStatus, error)
	// Signal reaches the command's process group, or returns os.ErrProcessDone.
	Signal(shared.Signal) error
	// Kill ends everything, sooner or later, and returns at once; it returns
	// os.ErrProcessDone if the command has ended.
	Kill() error
}

func (s *sandbox) begin(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (Run, []shared.Event, error) {
	givePipes(stdio[:], s.credential)
	return s.engine.config.Begin(ctx, &s.spec, cmd, stdio, emit)
}

// ExecError says in the contract's terms why an init did not execute a command:
// ErrNotFound, ErrNotExecutable, or what was wrong about the sandbox. It is for
// those who talk to an init themselves, in Config.Begin.
func ExecError(e *sandboxinit.ExecError) error { return execError(e, whereInside) }
