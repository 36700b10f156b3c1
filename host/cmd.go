package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/stdio"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Cmd is a command to run in a sandbox. Use it like exec.Cmd, once: set the fields, then call Run,
// Output, CombinedOutput, or Start and Wait. Different goroutines may call Start, Wait, Signal,
// Resize and Report. Do not change fields after Start.
//
// It differs from exec.Cmd on purpose:
//
//   - The command does not inherit the caller's environment, and the sandbox's PATH finds Args[0].
//     Explain shows the environment and the directory; there is no Environ, Path or Err.
//   - There is no Process, ProcessState, SysProcAttr or ExtraFiles: a process number of the sandbox
//     means nothing outside, and the definition sets the limits. Use Signal and Report.
//   - Signal goes to the command's process group; SIGKILL kills all that the command has started.
//   - Wait does not wait for a Stdin whose Read blocks.
//   - A nil Cancel kills.
type Cmd struct {
	// Args is the command line. The command's PATH, inside the sandbox, finds Args[0].
	Args []string
	// Script is shell text to run instead; Args are then its positional parameters. See
	// shared.Command.
	Script string
	// Env adds variables for this command to those of its definition: "name=value", or "name" for
	// the caller's value.
	Env []string
	// Dir is the working directory: a path of the host in the workspace, relative to its root.
	// Empty means Options.Dir if that is in the workspace, else the root, with and without a
	// sandbox. A sandbox refuses a directory that it hides.
	Dir string

	// Caller, if set, is the process that the command is for, in a Host that runs commands for
	// several processes. The variables that the Host has read from Options.Environ must have the
	// same values in each caller's environment. Otherwise Start fails.
	Caller *Caller

	// Network, if set, replaces the definition's network for this command. BindPaths are added to
	// the definition's. A command with either has a sandbox of its own. An invalid path is an error
	// with the attribute BindPaths[0].
	Network   *Network
	BindPaths []Bind
	// Review, if set, replaces the definition's: see Definition.Review.
	Review string

	// Stdin, Stdout and Stderr are as in os/exec: nil is the null device, the command gets an
	// *os.File itself, and a pipe copies everything else. For a confined command, a pipe also
	// copies a regular file as Stdin, which the command could otherwise reopen for writing. And it
	// copies to a pipe, socket or regular file as Stderr, for Report.Denials; but in a session with
	// processes the command gets a regular file itself. If Stdout and Stderr are the same writer or
	// file, one goroutine at a time calls Write.
	//
	// The command never gets the caller's terminal: it could read what the user types, and change
	// the terminal's settings. As Stdin a terminal is the null device, unless TTY is set and the
	// caller passes on the keys; as Stdout or Stderr it is a new terminal of the same size.
	//
	// Wait may return while a last Read of Stdin still blocks. Its data are lost, and no other Read
	// follows.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Background receives, in a session with processes, what processes that the command left
	// running write to its Stdout and Stderr after its end; nil discards it. One goroutine at a
	// time calls Write, also after Wait. If Stdout or Stderr is an *os.File that is no pipe, socket
	// or terminal, they go on writing there instead.
	Background io.Writer

	// TTY gives the command a controlling terminal: Stdin types, and Stdout gets its output. If
	// Stderr is nil, Stdout gets the errors too.
	TTY bool
	// TTYOptional lets an engine without terminals run the command without TTY and Stdin. Start
	// then sets TTY to false.
	TTYOptional bool
	// Size is the terminal's size at the start; zero means 24 rows, 80 columns.
	Size TerminalSize
	// Suspend, if set, is called after ^Z on a TTY with no shell inside. The kernel does not stop
	// such a command, because its process group is orphaned. The caller may send it SIGSTOP, and
	// stop itself.
	Suspend func()

	// Trace looks up each file, program and address that the command failed to reach, so that
	// Report.Denials lists also what the command did not print, even after success. The command's
	// rights do not change; it is slower. Start fails if the engine cannot trace, or if the sandbox
	// lets commands trace.
	Trace bool

	// Timeout ends the command after this time, if its definition does not end it earlier; zero
	// leaves it to the definition. The time begins with the call of Start. Start, and Wait after
	// the definition's grace, return ErrTimedOut within a few seconds, even if the engine hangs or
	// another process holds a lock.
	Timeout time.Duration

	// NoSandbox asks for a run without the sandbox. ApprovalOptions.AllowBypass must permit the
	// question, and somebody must approve.
	NoSandbox bool
	// Decided, if set, is called before the command runs, with the decision that permits it. It is
	// called again if the engine turns out not to work on this machine.
	Decided func(Decision)

	// Cancel is called when Command's context ends. Nil means to kill the command and all that it
	// has started. Wait returns Cancel's error, except os.ErrProcessDone, for a command that
	// succeeded.
	Cancel func() error
	// WaitDelay bounds two times: from the call of Cancel to the kill of a command that still runs,
	// and from the command's end to the end of its output. If the second time is exceeded, Wait
	// returns exec.ErrWaitDelay for a command that succeeded. Zero means no bound; an engine that
	// isolates leaves no process that could hold the output open.
	WaitDelay time.Duration

	// Events, if set, is called for each event while the command runs, for the engine's messages
	// about a long preparation, and by Wait for what was found after the end, one call at a time.
	// Wait waits for it as for Stdout's Write.
	Events func(shared.Event)

	host       *Host
	ctx        context.Context
	newReview  func() string // makes the name of a review for this command
	sandbox    string
	definition *Definition // set by CommandIn

	run // the state after Start
}

// A Caller is the process that a command is for.
type Caller struct {
	// Environ and Dir replace those of Options. The Host asks nobody to approve this caller's
	// commands: one that needs an approval fails.
	Environ []string
	Dir     string
}

func (c *Cmd) callerDir() string {
	if c.Caller != nil {
		return c.Caller.Dir
	}
	return c.host.options.Dir
}

func (c *Cmd) callerEnviron() []string {
	if c.Caller != nil {
		return c.Caller.Environ
	}
	return c.host.options.Environ
}

// checkCaller refuses a command that would get a value from another caller's environment.
func (c *Cmd) checkCaller() error {
	if c.Caller != nil {
		if name := c.host.OtherCaller(c.Caller.Environ); name != "" {
			return fmt.Errorf("%w: the value of %s", facts.ErrOtherCaller, name)
		}
	}
	return nil
}

// OtherCaller returns the first variable that the Host has read and that differs between environ
// and Options.Environ. It returns "" if the Host may run commands for this environment.
func (h *Host) OtherCaller(environ []string) string { return h.caller.Environ.Differs(environ) }

// Command returns a Cmd that runs argv in the named sandbox; "" means the default one. When ctx
// ends first, the Host kills the command and all that it has started.
func (h *Host) Command(ctx context.Context, sandbox string, argv ...string) *Cmd {
	if ctx == nil {
		panic("host: nil Context")
	}
	return &Cmd{Args: argv, host: h, ctx: ctx, sandbox: sandbox, newReview: sync.OnceValue(newReviewName)}
}

// CommandIn is Command for a definition that is not in Options.Sandboxes. Start checks it as it
// checks those. Commands with equal definitions share a sandbox, and its name in reports, errors
// and approvals, which begins with "definition-".
func (h *Host) CommandIn(ctx context.Context, definition Definition, argv ...string) *Cmd {
	c := h.Command(ctx, "", argv...)
	c.definition = &definition
	return c
}

// String returns the command line for people and logs, in one line: it quotes words that are not
// plain.
func (c *Cmd) String() string {
	words := c.Args
	if c.Script != "" {
		words = slices.Concat([]string{c.Script}, c.Args)
	}
	return hostpath.ShellQuoted(words...)
}

// errNotMade is the error of a Cmd without a Host.
var errNotMade = errors.New("host: Cmd was not made by Host.Command")

// target returns the sandbox that the command asks for.
func (c *Cmd) target() (t sandbox.Target, err error) {
	if c.host == nil {
		return t, errNotMade
	}
	if c.definition != nil {
		t = sandbox.Target{Name: view.ImplicitName(*c.definition), Definition: *c.definition, DefinitionBinds: len(c.definition.BindPaths)}
	} else if t, err = c.host.target(c.sandbox); err != nil {
		return t, err
	}
	if c.Network != nil {
		t.Definition.Network = *c.Network
	}
	t.Definition.BindPaths = slices.Concat(t.Definition.BindPaths, c.BindPaths)
	t.Definition.Review = cmp.Or(c.Review, t.Definition.Review)
	if err := c.host.checkDefinition(t.Name, t.Definition); err != nil {
		return t, err
	}
	named := t.Definition.Review == NewReview
	if named {
		t.Definition.Review = c.newReview()
	}
	if c.definition == nil && c.Network == nil && len(c.BindPaths) == 0 && c.Review == "" && !named {
		return t, nil
	}
	text, err := json.Marshal(t.Definition)
	if err != nil {
		return t, &SandboxError{Sandbox: t.Name, Err: err}
	}
	t.ImplicitKey = string(text)
	return t, nil
}

// timeLimit is the time from the call of Start to the command's end; zero is no limit.
func (c *Cmd) timeLimit() time.Duration {
	limit := c.Timeout
	if t, err := c.target(); err == nil && t.Definition.Limits.Timeout > 0 && (limit <= 0 || t.Definition.Limits.Timeout < limit) {
		limit = t.Definition.Limits.Timeout
	}
	return max(limit, 0)
}

// TerminalSize is a window size in character cells.
//
//	type TerminalSize struct {
//		Rows, Cols uint16 // zero means unknown
//	}
type TerminalSize = stdio.TerminalSize

func newReviewName() string { return "r" + strings.ToLower(rand.Text()[:8]) }
