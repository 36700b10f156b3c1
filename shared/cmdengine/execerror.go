//go:build unix

package cmdengine

import (
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// Whose PATH a message speaks of.
const (
	whereDirect = "the command's PATH"
	whereInside = "the sandbox's PATH"
)

// execError says for people and in the contract's terms why a command was not executed.
func execError(e *sandboxinit.ExecError, where string) error {
	reason := e.Errno.Error()
	switch {
	case e.Op == sandboxinit.OpLookup && e.NotFound():
		x := &shared.Error{Kind: shared.ErrNotFound, Message: fmt.Sprintf("%q: command not found in %s", e.Path, where)}
		if filepath.IsAbs(e.Path) || e.Path == "" {
			x.Message = fmt.Sprintf("%q: command not found", e.Path)
		}
		return x
	case e.Op == sandboxinit.OpInterpreter:
		return &shared.Error{
			Kind: kindOf(e), Message: fmt.Sprintf("%q exists, but the interpreter or loader that it names does not", e.Path),
			Hint: "install it, or correct the first line",
		}
	case e.NotFound():
		return &shared.Error{Kind: shared.ErrNotFound, Message: fmt.Sprintf("%q: %s", e.Path, reason)}
	case e.Errno == syscall.E2BIG:
		return &shared.Error{
			Kind: shared.ErrInvalidSpec, Attribute: "args",
			Message: "the arguments and the environment are longer than the system lets a process have",
			Hint:    "pass them by a file or by standard input",
		}
	case e.NotExecutable():
		x := &shared.Error{Kind: shared.ErrNotExecutable, Message: fmt.Sprintf("%q: %s", e.Path, reason)}
		switch e.Errno {
		case syscall.ENOEXEC:
			x.Hint = "it is neither a program for this machine nor a script with a #! line"
		case syscall.EACCES:
			x.Hint = "is it marked executable, and on a file system that allows it?"
		}
		return x
	case e.Op == sandboxinit.OpChdir:
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "dir", Message: fmt.Sprintf("%q: %s", e.Path, reason)}
	case e.Op == sandboxinit.OpTTY:
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "stdin", Message: "cannot be the controlling terminal: " + reason}
	case e.Op == sandboxinit.OpTrace:
		return &shared.Error{Kind: shared.ErrUnsupported, Attribute: "trace", Message: "this kernel does not let the command be traced: " + reason, Hint: "run the command without a trace"}
	case e.Op == sandboxinit.OpRlimit:
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "limits", Message: fmt.Sprintf("setting %s: %s", e.Path, reason)}
	}
	return &shared.Error{Kind: shared.ErrUnavailable, Message: e.Error()}
}

func kindOf(e *sandboxinit.ExecError) error {
	if e.NotFound() {
		return shared.ErrNotFound
	}
	return shared.ErrNotExecutable
}
