package shared

import (
	"context"
	"syscall"
)

// An Engine isolates commands by one mechanism. It serves many sandboxes and commands at once.
type Engine interface {
	// Info describes the engine and its features. It is constant for the life of the process,
	// cheap, and needs no working installation.
	Info(ctx context.Context) (Info, error)

	// Probe finds out, with a trial, whether the engine works here and now. If it does not, Probe
	// returns a Probe that is not Ready, and no error. An error means that Probe could not find
	// out.
	Probe(ctx context.Context) (Probe, error)

	// Open validates a policy and allocates what it needs. It reports all failures that do not
	// depend on a command, and names the attribute (see [Error]). The sandbox keeps the lists of the
	// Spec: do not change them. Errors: ErrInvalidSpec, ErrUnsupported, ErrUnavailable, ErrUnusable.
	Open(ctx context.Context, spec Spec) (Sandbox, error)
}

// An EarlyStarter is an Engine that can prepare what most sandboxes need before the first Open.
type EarlyStarter interface {
	Engine

	// StartEarly is called once by [Serve], while the host still connects and resolves the first
	// Spec. ctx ends after the first Open, and at the end of the process, which waits for
	// StartEarly. Open reports its failures.
	StartEarly(ctx context.Context)
}

// A Sandbox is one opened [Spec]. Each command in it gets a fresh isolated environment; commands
// share only the Spec's [Session].
type Sandbox interface {
	// Start starts a command. It returns when the command was executed, or cannot be: ErrNotFound
	// and ErrNotExecutable are about the command, every other error is about the sandbox.
	//
	// The caller owns the files of stdio, and may close them after Start. A nil file is the null
	// device.
	Start(ctx context.Context, cmd Command, stdio Stdio) (Process, error)

	// Plan returns what Start would do with the same command. It runs nothing.
	Plan(ctx context.Context, cmd Command) (Plan, error)

	// Close kills running commands and frees what Open allocated. It is idempotent. Start and Plan
	// then fail with ErrClosed.
	Close(ctx context.Context) error
}

// An EventDrainer is a Sandbox whose processes outlive their commands.
type EventDrainer interface {
	Sandbox

	// DrainEvents returns, after Close, the events that came after all commands, such as
	// EventNetwork. It returns each event once.
	DrainEvents() []Event
}

// A Process is one started command.
type Process interface {
	// Wait waits until the command and everything it started are gone. In a Session with Processes
	// it waits only for the command, unless that was killed. The Result is the command's own end;
	// an error means that the sandbox broke (ErrBroken), so the end is unknown. If ctx ends first,
	// Wait returns its error and changes nothing. Later calls return the same values.
	Wait(ctx context.Context) (Result, error)

	// Signal sends sig to the command's process group. SIGKILL ends the command's whole sandbox.
	// After the end it returns os.ErrProcessDone.
	Signal(ctx context.Context, sig syscall.Signal) error

	// Events returns a channel of events while the command runs. The engine closes it after the
	// end. A slow or absent reader never delays the command: the engine drops events beyond a
	// bounded buffer, and the last event counts them.
	Events() <-chan Event
}
