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
	// ImplicitKey, for a definition that the Host was not given, is what sets it apart from all others.
	ImplicitKey string
	// DefinitionBinds counts the binds of the definition, which those of one command follow.
	DefinitionBinds int
	// Planning says that nothing will run in it.
	Planning bool
}

// Error says which definition could not be used. It unwraps to the cause: a *shared.Error
// names the attribute at fault.
type Error struct {
	Sandbox string
	Err     error
}

func (e *Error) Error() string { return fmt.Sprintf("sandbox %q: %v", e.Sandbox, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrNoWorkspace is the error of a Host that has engines alone.
var ErrNoWorkspace = errors.New("host: made with EnginesOnly, it has no workspace to run commands on")
