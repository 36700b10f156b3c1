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

// ErrNoProgram is wrapped by the error for a program that is to run outside of sandboxes and is found
// nowhere but where others or commands could have put it.
var ErrNoProgram = hostpath.ErrNoProgram

// ErrClosed is returned by what needs a Host that was closed.
var ErrClosed = session.ErrClosed

// ErrTimedOut is wrapped by the error for a command whose time limit was over before
// the command ran, or whose sandbox did not end it then. One that was ended as it
// should has an ExitError instead, with TimedOut.
var ErrTimedOut = errors.New("timed out")

// ErrUnknownSandbox is wrapped by the error for a name without a definition.
var ErrUnknownSandbox = errors.New("unknown sandbox")

// ErrRefusedRoot is wrapped by New's error for a workspace that is too broad: a
// home directory, or one of the system's.
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
	// TimedOut says that the command was ended by its time limit.
	TimedOut bool
	// Stderr is what the command wrote to its standard error if that was not
	// captured otherwise; Output sets it, shortened in the middle.
	Stderr []byte
}

func (e *ExitError) Error() string {
	if e.TimedOut {
		return "timed out: " + e.ExitStatus.String()
	}
	return e.ExitStatus.String()
}

// ExitCode is the exit status, or -1 for a command that a signal has ended, as
// in os/exec. Shell gives it in the form of shells.
func (e *ExitError) ExitCode() int {
	if e.Signal != 0 {
		return -1
	}
	return e.Code
}

// SandboxError says which definition could not be used. It unwraps to the
// cause: a *shared.Error names the attribute at fault. What is no fault of the definition has none: a
// command that is not there, and one whose time was over before it ran.
//
//	type SandboxError struct {
//		Sandbox string
//		Err     error
//	}
//	func (e *SandboxError) Error() string
//	func (e *SandboxError) Unwrap() error
type SandboxError = sandbox.Error
