package sandbox

import (
	"errors"
	"fmt"

	"github.com/sbxhost/sbxhost/internal/view"
)

// Target is the sandbox that a command runs in.
type Target struct {
	Name       string
	Definition view.Definition
	// ImplicitKey identifies a definition that the Host was not given.
	ImplicitKey string
	// DefinitionBinds is the number of the definition's binds; those of one command follow.
	DefinitionBinds int
	// Planning says that nothing will run in it.
	Planning bool
}

// Error names the definition that failed. It unwraps to the cause: a *shared.Error names the
// attribute.
type Error struct {
	Sandbox string
	Err     error
}

func (e *Error) Error() string { return fmt.Sprintf("sandbox %q: %v", e.Sandbox, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrNoWorkspace is the error of a Host with EnginesOnly.
var ErrNoWorkspace = errors.New("host: made with EnginesOnly, it has no workspace to run commands on")
