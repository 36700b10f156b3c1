package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/stdio"
	"github.com/sbxhost/sbxhost/shared"
)

// Cmd is a command to run in a sandbox, used like exec.Cmd: set the fields,
// then call one of Run, Output, CombinedOutput, or Start and Wait. It can be
// used once. Start, Wait, Signal, Resize and Report may be called from different
// goroutines; the fields must not change after Start.
//
// Where it differs from exec.Cmd, on purpose:
//
//   - The caller's environment is not inherited, and Args[0] is looked up
//     inside. Explain tells the environment and the directory; there is no
//     Environ, Path or Err.
//   - There is no Process, ProcessState or SysProcAttr: a number from inside
//     means nothing outside, and what holds a command belongs to its
//     definition. Signal and Report stand in their place. There are no
//     ExtraFiles.
//   - Signal reaches the command's process group, and a kill all that it has
//     started.
//   - Wait does not wait for a Stdin whose Read blocks.
//   - A nil Cancel kills.
type Cmd struct {
	// Args is the command line. Args[0] is looked up in the command's PATH,
	// inside the sandbox.
	Args []string
	// Script is shell text to run instead; Args are then its positional
	// parameters. See shared.Command.
	Script string
	// Env are variables for this command on top of what its definition gives:
	// "name=value", or "name" to pass on the caller's. Unlike in os/exec the
	// caller's environment is not inherited.
	Env []string
	// TraceParent and TraceState are the W3C trace context that the command finds
	// in the variables TRACEPARENT and TRACESTATE, if the first is set. They differ
	// from run to run, so that unlike Env they are no part of what is approved.
	TraceParent, TraceState string
	// Dir is the working directory, a path of the host within the workspace,
	// relative to its root. Empty means Options.Dir where that lies in the
	// workspace, and its root otherwise, with a sandbox and without.
	Dir string

	// Caller, if set, is who the command is for, in a Host that runs commands for several. What the Host has
	// read of Options.Environ must be the same in the environment of each: else Start fails with facts.ErrOtherCaller.
	Caller *Caller

	// Network, if set, stands in the place of the definition's for this command, and
	// BindPaths are shown to it besides the definition's. Both count as if the definition
	// said so: a command that differs has a sandbox of its own. A path that makes no sense
	// is an error with the attribute BindPaths[0].
	Network   *Network
	BindPaths []Bind
	// Review, if set, stands in the place of the definition's: see Definition.Review.
	Review string

	// Stdin, Stdout and Stderr are as in os/exec: nil is the null device, an
	// *os.File is handed over as it is, anything else is copied by way of a
	// pipe - and so is a regular file as Stdin of a confined command, which
	// could otherwise open it again for writing. If Stdout and Stderr are the same
	// writer, one goroutine at a time calls Write.
	//
	// A terminal is never handed over: who has it open can read what is typed
	// there, and change how it works for everybody. As Stdin it is the null device,
	// unless TTY is set and the caller types for the command; as Stdout or Stderr
	// the command gets a terminal of its own to write to, of the same size.
	//
	// A Read of Stdin that is under way when the command ends may return later
	// than Wait; what it gives is lost. No further one is begun.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Background gets, in a session with processes, what those that the command has left
	// running write to its Stdout and Stderr once it has ended, until they end; nil discards it.
	// One goroutine at a time calls Write, after Wait as well. What an *os.File that is no pipe,
	// socket or terminal was handed for, goes there.
	Background io.Writer

	// TTY gives the command a controlling terminal of its own: what it writes to
	// it goes to Stdout, and what Stdin gives is typed. It has its errors there, too,
	// where Stderr is nil.
	TTY bool
	// TTYOptional is for a TTY that nobody has asked for: with an engine that takes
	// none, the command runs without it, and without Stdin. TTY is false then when
	// Start returns.
	TTYOptional bool
	// Size is the terminal's size at the start; zero means 24 rows, 80 columns.
	Size TerminalSize
	// Suspend, if set, is called when the key that stops jobs (^Z) was typed to a
	// TTY, and no shell inside acts on it: of the command itself, whose terminal's
	// session has nobody else in it, the kernel stops nothing. The caller may stop the
	// command by SIGSTOP, and itself.
	Suspend func()

	// Trace has Report.Denials tell also what the command itself does not: each file, program and
	// address that it failed to reach is looked up, after a command that succeeded, too.
	// The command can do no more and no less, and is slower. An engine that cannot trace
	// refuses, and so does a sandbox that lets its commands trace.
	Trace bool

	// Timeout ends the command after that long, if its definition does not end
	// it earlier; zero leaves it to the definition. The time runs from the call of
	// Start: what is done before the command runs counts. Start, and Wait after
	// the definition's grace, return ErrTimedOut within a few seconds of it also
	// where the engine hangs, or another process holds a lock.
	Timeout time.Duration

	// NoSandbox asks to run without the sandbox, which only
	// ApprovalOptions.AllowBypass lets be asked for, and which has to be approved
	// then.
	NoSandbox bool
	// Decided, if set, is called with the decision that lets the command run,
	// before it does. A decision is made anew where the engine turns out not to
	// work on this machine.
	Decided func(Decision)

	// Cancel is called when the context given to Command ends. Nil means to
	// kill the command and all it has started. If Cancel returns an error other
	// than os.ErrProcessDone, Wait returns it for a command that succeeded.
	Cancel func() error
	// WaitDelay bounds two times: from the call of Cancel to the kill of a
	// command that goes on, and from the command's end to that of its output;
	// where the latter is exceeded, Wait returns exec.ErrWaitDelay for a command
	// that succeeded. Zero means without bound; an engine that isolates leaves
	// nobody behind who could hold the output open.
	WaitDelay time.Duration

	// Events, if set, is called for each event while the command runs, and for
	// what its engine tells of a long preparation before, one call at a time. Wait waits for it as it does for Stdout's Write.
	Events func(shared.Event)

	host       *Host
	ctx        context.Context
	newReview  func() string // the name of one that is this command's
	sandbox    string
	definition *Definition // of CommandIn

	run // what becomes of it
}

// A Caller is who a command is for.
type Caller struct {
	// Environ and Dir stand in the place of those of Options. Nobody is asked for it to approve anything:
	// what needs that fails with policy.ErrAsks.
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

// checkCaller refuses a command whose caller would have got something of another caller's.
func (c *Cmd) checkCaller() error {
	if c.Caller != nil {
		if name := c.host.OtherCaller(c.Caller.Environ); name != "" {
			return fmt.Errorf("%w: the value of %s", facts.ErrOtherCaller, name)
		}
	}
	return nil
}

// OtherCaller says by which variable, of those that the Host has read until now, an environment differs from
// Options.Environ. It is empty for one whose commands the Host may run.
func (h *Host) OtherCaller(environ []string) string { return h.caller.Environ.Differs(environ) }

// Command returns a Cmd that runs argv in the named sandbox; an empty name is
// the default one. When ctx ends before the command does, the command is
// killed with all it has started.
func (h *Host) Command(ctx context.Context, sandbox string, argv ...string) *Cmd {
	if ctx == nil {
		panic("host: nil Context")
	}
	return &Cmd{Args: argv, host: h, ctx: ctx, sandbox: sandbox, newReview: sync.OnceValue(newReviewName)}
}

// CommandIn is Command for a definition that Options.Sandboxes does not have. It is checked as
// New checks those; what is wrong with it is the error of Start. Commands of equal definitions
// share a sandbox. In reports, errors and approvals it has a name that begins with
// "definition-", the same for equal definitions.
func (h *Host) CommandIn(ctx context.Context, definition Definition, argv ...string) *Cmd {
	c := h.Command(ctx, "", argv...)
	c.definition = &definition
	return c
}

// String gives the command line for people and logs: words that are not plain
// are quoted, so that it is one line whatever they hold. It is not for a shell.
func (c *Cmd) String() string {
	words := c.Args
	if c.Script != "" {
		words = slices.Concat([]string{c.Script}, c.Args)
	}
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if quoted := strconv.Quote(word); strings.Contains(word, " ") || len(quoted) != len(word)+2 || word == "" {
			word = quoted
		}
		b.WriteString(word)
	}
	return b.String()
}

// Run starts the command and waits for its end. The error is nil for exit
// status 0, an *ExitError for any other end of the command, and anything else
// says that the command could not be run or that its sandbox broke.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// target is the sandbox that the command asks for.
func (c *Cmd) target() (t sandbox.Target, err error) {
	if c.definition != nil {
		t = sandbox.Target{Name: c.definition.ImplicitName(), Definition: *c.definition, DefinitionBinds: len(c.definition.BindPaths)}
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

// timeLimit is how long the command may take from the call of Start; zero is no limit.
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
//		Rows, Cols uint16 // zero is a size that nobody knows
//	}
type TerminalSize = stdio.TerminalSize

func newReviewName() string { return "r" + strings.ToLower(rand.Text()[:8]) }
