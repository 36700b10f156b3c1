package cmdengine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// Whose PATH it is, for messages.
const (
	whereDirect = "the command's PATH"
	whereInside = "the sandbox's PATH"
)

// execError explains for people, and in the contract's errors, why a command was not executed:
// ErrNotFound, ErrNotExecutable, or a fault of the sandbox.
func execError(e *sandboxinit.ExecError, where string) *shared.Error {
	reason := e.Errno.Error()
	x := &shared.Error{Kind: shared.ErrNotFound, Message: fmt.Sprintf("%q: %s", e.Path, reason)}
	switch {
	case e.Op == sandboxinit.OpLookup && e.NotFound():
		x.Message = fmt.Sprintf("%q: command not found in %s", e.Path, where)
		if filepath.IsAbs(e.Path) || e.Path == "" {
			x.Message = fmt.Sprintf("%q: command not found", e.Path)
		}
	case e.Op == sandboxinit.OpInterpreter:
		x.Message, x.Hint = fmt.Sprintf("%q exists, but its interpreter or loader does not", e.Path), "install it, or correct the first line"
	case e.NotFound():
	case e.Errno == syscall.E2BIG:
		x.Kind, x.Attribute = shared.ErrInvalidSpec, "args"
		x.Message, x.Hint = "the arguments and the environment are longer than the system permits for a process", "pass them by a file or by standard input"
	case e.NotExecutable():
		x.Kind = shared.ErrNotExecutable
		switch e.Errno {
		case syscall.ENOEXEC:
			x.Hint = "it is neither a program for this machine nor a script with a #! line"
		case syscall.EACCES:
			x.Hint = "is it marked executable, and on a file system that allows it?"
		}
	case e.Op == sandboxinit.OpChdir:
		x.Kind, x.Attribute = shared.ErrInvalidSpec, "dir"
	case e.Op == sandboxinit.OpTTY:
		x.Kind, x.Attribute, x.Message = shared.ErrInvalidSpec, "stdin", "cannot be the controlling terminal: "+reason
	case e.Op == sandboxinit.OpTrace:
		x.Kind, x.Attribute = shared.ErrUnsupported, "trace"
		x.Message, x.Hint = "this kernel does not let the command be traced: "+reason, "run the command without a trace"
	case e.Op == sandboxinit.OpNamespaces:
		x = unavailable("the kernel refuses the user namespace that protects the mounts of the sandbox: " + reason)
		x.Hint = "permit it: sysctl kernel.unprivileged_userns_clone and user.max_user_namespaces"
	case e.Op == sandboxinit.OpRlimit:
		x = unavailable(fmt.Sprintf("setting %s of this process or of the one that began the session: %s", e.Path, reason))
		x.Attribute, x.Hint = "limits", "raise that limit"
		if strings.HasPrefix(e.Path, "RLIMIT_NOFILE") {
			x.Attribute, x.Hint = "limits.open_files", "set less, or raise the limit that ulimit -Hn shows"
		}
	default:
		x = unavailable(e.Error())
	}
	return x
}

func unavailable(message string) *shared.Error {
	return &shared.Error{Kind: shared.ErrUnavailable, Message: message}
}

// broken is the error for a command whose end is not known.
func broken(message string) *shared.Error {
	return &shared.Error{Kind: shared.ErrBroken, Message: message}
}

// launchError explains why a launcher, at its absolute path, could not start.
func launchError(path string, credential *syscall.Credential, err error) error {
	var errno syscall.Errno
	errors.As(err, &errno)
	x := unavailable("starting the launcher: " + err.Error())
	switch {
	case errno == syscall.EPERM && credential != nil:
		x.Kind, x.Attribute, x.Message = shared.ErrDenied, "run_as", "the system does not permit the engine to change to that user: "+err.Error()
	case errno == syscall.E2BIG:
		return execError(&sandboxinit.ExecError{Op: sandboxinit.OpExec, Path: path, Errno: errno}, whereInside)
	case errors.Is(err, fs.ErrNotExist):
		x.Message, x.Hint = "the launcher "+path+" does not exist", "install it"
	}
	return x
}

// directError explains a failed fork or exec of the command itself.
func directError(path string, credential *syscall.Credential, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return launchError(path, credential, err)
	}
	x := &sandboxinit.ExecError{Op: sandboxinit.OpExec, Path: path, Errno: errno}
	switch errno {
	case syscall.ENOENT:
		if sandboxinit.Executable(path) == 0 {
			x.Op = sandboxinit.OpInterpreter
		}
	case syscall.EPERM:
		if credential != nil {
			return launchError(path, credential, err)
		}
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		x.Op = sandboxinit.OpFork
	case syscall.ENOTTY:
		x.Op = sandboxinit.OpTTY
	}
	return execError(x, whereDirect)
}
