package shared

import "context"

// An Engine isolates commands by one mechanism. One engine serves many
// sandboxes and many commands at once.
type Engine interface {
	// Info says who the engine is and what it can do. It is constant for the
	// life of the process, cheap, and needs no working installation.
	Info(ctx context.Context) (Info, error)

	// Probe finds out, by doing, whether the engine works here and now. A
	// machine on which it does not work is a Probe that is not Ready and a
	// nil error; an error means that the question could not be answered.
	Probe(ctx context.Context) (Probe, error)

	// Open validates a policy and allocates what it needs. All that can fail
	// before a command is known fails here, and names the attribute at fault
	// (see [Error]). Errors: ErrInvalidSpec, ErrUnsupported, ErrUnavailable, ErrUnusable.
	Open(ctx context.Context, spec Spec) (Sandbox, error)
}

// An EarlyStarter is an Engine that can begin with what most sandboxes need before it knows
// of any.
type EarlyStarter interface {
	Engine

	// StartEarly is called by [Serve], once, while the host still connects and finds
	// out what the first sandbox is to show. ctx ends when that has been opened, or
	// refused, and at the end of the process, which waits for StartEarly to return.
	// What fails is for Open to tell.
	StartEarly(ctx context.Context)
}

// A Sandbox is one opened [Spec]. Each command started in it gets a fresh
// isolated environment; what commands share is the Spec's [Session].
type Sandbox interface {
	// Start starts a command. It returns once the command has been executed
	// or is known not to be: ErrNotFound and ErrNotExecutable speak of the
	// command itself, every other error of the sandbox.
	//
	// The files of stdio stay the caller's: they may be closed as soon as
	// Start has returned. A nil file is the null device.
	Start(ctx context.Context, cmd Command, stdio Stdio) (Process, error)

	// Plan says exactly what Start would do with the same command, and runs
	// nothing.
	Plan(ctx context.Context, cmd Command) (Plan, error)

	// Close kills what still runs, frees what Open allocated and is
	// idempotent. Start and Plan fail with ErrClosed afterwards.
	Close(ctx context.Context) error
}

// A EventDrainer is a Sandbox whose processes outlive their commands.
type EventDrainer interface {
	Sandbox

	// DrainEvents gives, once it is closed, the events that no command was there for, such as
	// EventNetwork. It gives each once.
	DrainEvents() []Event
}

// A Process is one started command.
type Process interface {
	// Wait waits for the command and everything it started to be gone; in a Session with
	// Processes for the command alone, and for the rest if it was killed. The
	// Result says how the command itself ended; the error says that the
	// sandbox broke (ErrBroken), so that the end of the command is not known.
	// When ctx ends first, Wait returns ctx's error and changes nothing.
	// Every call after the end returns the same values.
	Wait(ctx context.Context) (Result, error)

	// Signal sends sig to the command's process group. SIGKILL ends the whole
	// sandbox of this command. After the end it returns os.ErrProcessDone.
	Signal(ctx context.Context, sig Signal) error

	// Events gives what is worth telling while the command runs. The channel
	// is closed after the end. A reader that is slow or absent never delays
	// the command: events beyond a bounded buffer are dropped, and the last
	// event then says how many.
	Events() <-chan Event
}
