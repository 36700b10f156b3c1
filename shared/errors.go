package shared

import (
	"errors"
	"io/fs"
	"os/exec"
)

// The kinds of error that an engine can give, each of which errors.Is
// recognises on the host's side of the wire as well.
var (
	// ErrUnsupported: the engine cannot do what was asked, here or anywhere.
	ErrUnsupported = errors.New("not supported by this engine")
	// ErrUnavailable: the engine does not work at this moment. A shortage is of
	// this kind: of memory, processes, descriptors or disk, whatever brought it about.
	ErrUnavailable = errors.New("engine not available")
	// ErrUnusable: the engine has found what this machine lacks or forbids, which
	// stays so until somebody changes the machine: its launcher is not installed, the
	// kernel refuses user namespaces. It is an ErrUnavailable, too. A host may run a
	// command without its sandbox for this kind of error and for no other, so an
	// engine gives it where it knows the reason, and never for one it cannot tell.
	// Inside a sandbox nobody must be able to bring it about.
	ErrUnusable error = &kind{"engine cannot work on this machine", []error{ErrUnavailable}}
	// ErrInvalidSpec: a Spec, Command or option has a value that makes no sense.
	ErrInvalidSpec = errors.New("invalid request")
	// ErrDenied: the operating system or the engine's own policy refused.
	ErrDenied = errors.New("denied")
	// ErrNotFound: the command does not exist inside the sandbox. It is an exec.ErrNotFound and
	// an fs.ErrNotExist, too, as package os/exec has them.
	ErrNotFound error = &kind{"command not found", []error{exec.ErrNotFound, fs.ErrNotExist}}
	// ErrNotExecutable: the command exists inside and cannot be executed. It is an
	// fs.ErrPermission, too.
	ErrNotExecutable error = &kind{"command not executable", []error{fs.ErrPermission}}
	// ErrClosed: the sandbox or the engine was closed before the call.
	ErrClosed = errors.New("already closed")
	// ErrBroken: the sandbox ended in a way that hides how the command ended.
	ErrBroken = errors.New("sandbox broke")
	// ErrEngineLost: the engine's process, or the connection to it, is gone,
	// and the commands that ran in it with it.
	ErrEngineLost = errors.New("engine process is gone")
)

// kind is a sentinel that is others as well.
type kind struct {
	text string
	also []error
}

func (k *kind) Error() string   { return k.text }
func (k *kind) Unwrap() []error { return k.also }

// Error is an error that says what was at fault and what to do about it. It
// crosses the wire whole.
type Error struct {
	// Kind is one of this package's sentinels, or os.ErrProcessDone.
	Kind error
	// Attribute is what was at fault, spelled as in a definition:
	// "bind_paths[1]", "config.image". Empty when no attribute was.
	Attribute string
	// Message is the cause: lower case, no final period.
	Message string
	// Hint says what to do; empty when there is nothing to say.
	Hint string
}

// Error gives "attribute: message; hint", leaving out what is empty, and the
// kind's text where there is no message.
func (e *Error) Error() string {
	s := e.Message
	if s == "" && e.Kind != nil {
		s = e.Kind.Error()
	}
	if e.Attribute != "" {
		s = e.Attribute + ": " + s
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap gives the kind.
func (e *Error) Unwrap() error { return e.Kind }
