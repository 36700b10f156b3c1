package host

import (
	"errors"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// ErrNoProgram is wrapped by the error for a program that should run outside of sandboxes, but was
// found only in places where other users or commands could have put it, or not at all.
var ErrNoProgram = hostpath.ErrNoProgram

// ErrClosed is the error of a closed Host.
var ErrClosed = session.ErrClosed

// ErrTimedOut matches each error for a command whose time limit passed: before it ran, or while it
// ran. The latter is an ExitError with TimedOut, unless the sandbox failed to end the command. The
// end of a context is not a time limit.
var ErrTimedOut = errors.New("timed out")

// ErrUnknownSandbox is wrapped by the error for a name without a definition.
var ErrUnknownSandbox = errors.New("unknown sandbox")

// ErrRefusedRoot is wrapped by New's error for a workspace that is too broad: a home directory, or
// a system directory.
var ErrRefusedRoot = workspace.ErrRefusedRoot

// Errors wrap these for a session: the name is not valid, the session belongs to another workspace,
// or a living process uses it.
var (
	ErrSessionName      = sessiondir.ErrName
	ErrSessionWorkspace = sessiondir.ErrWorkspace
	ErrSessionInUse     = sessiondir.ErrInUse
)

// ExitError says that a command ran and did not succeed. The sandbox itself
// did what it should.
type ExitError struct {
	shared.ExitStatus
	// TimedOut means that the time limit ended the command.
	TimedOut bool
	// Stderr is the command's standard error if nothing else captured it. Output sets it, and cuts
	// a long text in the middle.
	Stderr []byte
}

func (e *ExitError) Error() string {
	if e.TimedOut {
		return "timed out: " + e.ExitStatus.String()
	}
	return e.ExitStatus.String()
}

// Is matches ErrTimedOut.
func (e *ExitError) Is(target error) bool { return target == ErrTimedOut && e.TimedOut }

// ExitCode is the exit status, or -1 for a command that a signal ended, as in os/exec. Shell
// returns a shell's number for it.
func (e *ExitError) ExitCode() int {
	if e.Signal != 0 {
		return -1
	}
	return e.Code
}

// SandboxError names the definition that failed. It unwraps to the cause: a *shared.Error names the
// attribute. There is no SandboxError for a missing command, or for a command whose time limit
// passed before it ran.
//
//	type SandboxError struct {
//		Sandbox string
//		Err     error
//	}
//	func (e *SandboxError) Error() string
//	func (e *SandboxError) Unwrap() error
type SandboxError = sandbox.Error
