package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
)

// The kinds of errors of engines. errors.Is finds them on the host's side too.
var (
	// ErrUnsupported: the engine cannot do what the Spec asks, here or anywhere.
	ErrUnsupported = errors.New("not supported by this engine")
	// ErrUnavailable: the engine does not work at this moment. Every shortage is of this kind,
	// whatever its cause: of memory, processes, descriptors or disk.
	ErrUnavailable = errors.New("engine not available")
	// ErrUnusable: this machine lacks or forbids what the engine needs, until somebody changes the
	// machine. For example, its launcher is not installed, or the kernel refuses user namespaces.
	// It is also an ErrUnavailable. Only after this kind of error may a host run a command without
	// its sandbox, so an engine returns it only if it knows the reason. No process in a sandbox may
	// be able to cause it.
	ErrUnusable error = &kind{"engine cannot work on this machine", []error{ErrUnavailable}}
	// ErrInvalidSpec: a Spec, Command or option has a value that makes no sense.
	ErrInvalidSpec = errors.New("invalid request")
	// ErrDenied: the operating system or the engine's own policy refused.
	ErrDenied = errors.New("denied")
	// ErrNotFound: the command does not exist inside the sandbox. It is also an exec.ErrNotFound
	// and an fs.ErrNotExist, as in os/exec.
	ErrNotFound error = &kind{"command not found", []error{exec.ErrNotFound, fs.ErrNotExist}}
	// ErrNotExecutable: the command exists inside but is not executable. It is also an
	// fs.ErrPermission.
	ErrNotExecutable error = &kind{"command not executable", []error{fs.ErrPermission}}
	// ErrClosed: the sandbox or the engine was closed before the call.
	ErrClosed = errors.New("already closed")
	// ErrBroken: the sandbox broke, so that the command's end is unknown.
	ErrBroken = errors.New("sandbox broke")
	// ErrEngineLost: the engine's process, or the connection to it, is gone, and so are its
	// commands.
	ErrEngineLost = errors.New("engine process is gone")
)

// kind is a sentinel that wraps others.
type kind struct {
	text string
	also []error
}

func (k *kind) Error() string   { return k.text }
func (k *kind) Unwrap() []error { return k.also }

// Error is an error with the attribute at fault and what to do. All of it crosses the wire.
type Error struct {
	// Kind is one of this package's sentinels, or os.ErrProcessDone.
	Kind error
	// Attribute is the attribute at fault, spelled as in a definition: "bind_paths[1]",
	// "config.image". It may be empty.
	Attribute string
	// Message is the cause: lower case, no final period.
	Message string
	// Hint says what to do; it may be empty.
	Hint string
}

// Error returns "attribute: message; hint" without the empty parts, or the kind's text if there is
// no message.
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

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func invalid(attribute, format string, args ...any) error {
	return &Error{Kind: ErrInvalidSpec, Attribute: attribute, Message: fmt.Sprintf(format, args...)}
}
