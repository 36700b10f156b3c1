package cli

import (
	"errors"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// Exit statuses of sbxhost itself, as in env, timeout and docker run.
const (
	statusTimeout       = 124 // the time limit ended the command
	StatusFailed        = 125 // nothing ran, or the sandbox broke
	statusNotExecutable = 126
	statusNotFound      = 127
)

// ExitStatus returns the exit status for the result of a command.
func ExitStatus(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*host.ExitError](err); ok {
		if exit.TimedOut {
			return statusTimeout
		}
		return exit.Shell()
	}
	switch {
	case errors.Is(err, host.ErrTimedOut):
		return statusTimeout
	case errors.Is(err, shared.ErrNotFound):
		return statusNotFound
	case errors.Is(err, shared.ErrNotExecutable):
		return statusNotExecutable
	}
	return StatusFailed
}
