//go:build unix

package sandboxinit

import (
	"errors"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
)

// Command is what the init starts.
type Command struct {
	// Args is the command and its arguments. A name without a slash is looked
	// up in the absolute elements of the PATH of Env; one with a slash is taken
	// as it is, relative to Dir. With a Script, Args are its positional parameters.
	Args []string

	// Script is shell text. The init runs it with bash if that
	// is found in the PATH of Env or in /bin or /usr/bin, else with sh:
	// bash -c SCRIPT bash ARGS. Text beyond what fits in one argument is
	// sourced from a sealed file in memory (fd 3, closed before its first
	// command): $0, parameters, line numbers and exit status are the same; the
	// difference that shows is that `return` at the top level ends it quietly.
	Script string

	// Env is the whole environment, as KEY=VALUE, passed on as it is.
	Env []string

	// Dir is the working directory inside the sandbox. Empty is the one that
	// the launcher chose.
	Dir string

	// TTY makes stdin, which must be a terminal, the controlling terminal.
	TTY bool

	// Confinement is what the command is kept from. With Confined that was told before, by
	// [Conn.Confine].
	Confinement
	Confined bool

	// Fresh is a directory, in the sandbox's view, of memory that ends with the
	// command. [Status.NewFiles] tells what the command leaves in it. Empty is none.
	Fresh string

	// Mounts are what the launcher was to mount. If one is not in its place, the
	// command is not started: a launcher that mounts by path can be led elsewhere
	// by a symlink that another command puts there at the right moment, and in a
	// sandbox that has been there for a while a mount is gone with the file that it was
	// on, and the file may be back.
	Mounts []Mount

	// SharedLimits says that the command can use up what the init lives on, as in a
	// control group that both are in: processes, of which the init makes
	// beforehand those that it will need, or memory, for want of which the kernel then
	// kills a process of the command first. Either would else end the init,
	// and with pid 1 everything, and nobody could tell how the command ended.
	SharedLimits bool

	// Apart says that the init is one of several in a pid namespace, whose pid 1 is that of
	// [Conn.Reside]. What it leaves running when it ends goes on; a kill ends all that it has
	// started. It is not traced.
	Apart bool

	// Rlimits are set for the command alone, in this order.
	Rlimits []Rlimit

	// Trace is a program, of the form of Filter's, that stops the command at the calls of package
	// traced, for [Conn.Traced] to tell those that fail. Empty traces nothing. A command that
	// cannot be traced is not started. Its tracer is its parent, and its end if it is killed.
	Trace []byte
}

// Confinement is what the thread is kept from that starts a command, and so the command.
type Confinement struct {
	// Scope asks for the command to be kept from abstract unix sockets, and
	// from signalling processes, outside itself (Landlock ABI 6), and sets
	// no_new_privs. [Conn.Scoped] tells whether the kernel does it.
	Scope bool

	// Landlock, if it is not nil, keeps the command from files, takes all capabilities from it
	// and sets no_new_privs. It is for launchers that make no namespaces, or for none. A
	// kernel that does not take it does not get the command.
	Landlock *confine.Landlock

	// Rooted keeps the command from opening files that do not lie beneath its root directory, by a
	// descriptor that the command of another sandbox has passed to it, and from writing elsewhere
	// than beneath Writable, if that names anything (Landlock ABI 2). [Conn.Rooted] tells whether
	// the kernel does it. It keeps the command from mounting, too.
	Rooted   bool
	Writable []string // absolute

	// Locked gives the command a user and a mount namespace of its own, whose mounts the kernel
	// keeps together. Else a descriptor that one command passes to another would show what
	// protects and hides no more, once the first has ended and the kernel takes its mounts apart.
	// Nor can commands with the same uid enter its root directory by /proc, and read its
	// environment.
	Locked bool

	// Filter is a program for system calls, as an array of struct sock_filter of
	// the machine's byte order, for launchers that cannot load one themselves. It binds
	// the command alone, on top of what the launcher has loaded, and sets
	// no_new_privs. A kernel that does not take it does not get the command.
	Filter []byte
}

// A Mount is a place on which something must be mounted.
type Mount struct {
	Path string // inside
	// Links says that symlinks may lead to Path: it is spelled as a person did, and
	// no command can put one there.
	Links bool
	// Dev and Ino are of the file or directory that must show there, as stat has
	// them; an Ino of zero is any.
	Dev, Ino uint64
}

// Rlimit is one resource limit, in the kernel's unit for that resource.
// The greatest uint64 is unlimited.
type Rlimit struct {
	Resource   int    // RLIMIT_* as numbered on the system that runs the init
	Soft, Hard uint64 // RLIM_INFINITY is the highest number
}

// Rlimits are those that each command has, with a limit of open files if that is not zero.
func Rlimits(openFiles uint64) []Rlimit {
	// No core dumps: they would be written to the workspace, or by the
	// host's handler, with the command's memory in them.
	limits := []Rlimit{{Resource: unix.RLIMIT_CORE}}
	if openFiles > 0 {
		limits = append(limits, Rlimit{Resource: unix.RLIMIT_NOFILE, Soft: openFiles, Hard: openFiles})
	}
	return limits
}

const (
	maxRlimits  = 64
	maxFilter   = 8 * 4096 // BPF_MAXINSNS
	maxResource = 63
)

// validate refuses what an init could not pass on to the kernel. What a kernel refuses it does not look for.
func (c *Command) validate() error {
	if len(c.Args) == 0 && c.Script == "" {
		return errors.New("command: both args and script are empty")
	}
	if len(c.Rlimits) > maxRlimits {
		return errors.New("command: more than " + strconv.Itoa(maxRlimits) + " rlimits")
	}
	if err := errors.Join(validProgram(c.Filter), validProgram(c.Trace)); err != nil {
		return err
	}
	for i, l := range c.Rlimits {
		if l.Resource < 0 || l.Resource > maxResource {
			return errors.New("command: rlimits[" + strconv.Itoa(i) + "]: no resource " + strconv.Itoa(l.Resource))
		}
	}
	return nil
}

func validProgram(p []byte) error {
	if len(p) > maxFilter || len(p)%8 != 0 {
		return errors.New("command: filter is not 4096 instructions of 8 bytes or fewer")
	}
	return nil
}

// Status is how the command ended.
type Status struct {
	// Code is the exit status, 0 to 255, or -1 if a signal ended the command.
	Code int
	// Signal is the number of the signal that ended the command, else 0.
	Signal int
	// CoreDumped says that the kernel counts the death as one with a core dump.
	CoreDumped bool
	// NewFiles is how many files there are in Command.Fresh that were not there before and that
	// somebody may miss.
	NewFiles uint64
	// Alone says that nothing runs any more of what the command has started.
	Alone bool
	// Ended is how many processes that still ran were ended with a command that has exited.
	Ended uint64
}

// Used is what the command and all that the init has waited for have used.
type Used struct {
	CPU    uint64 // nanoseconds of processors
	Memory uint64 // bytes that the one with the most had at once
}

// ExitCode is the status as a shell shows it: 128+n for signal n.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + s.Signal
	}
	return s.Code
}

// The steps at which a command can fail to start: [ExecError.Op].
const (
	OpMounts      = "mounts"      // one of Mounts is not at Path
	OpChdir       = "chdir"       // Path is the directory
	OpTTY         = "tty"         // stdin is no terminal, or one that controls another session
	OpRlimit      = "rlimit"      // Path names the resource
	OpScript      = "script"      // the script could not be handed over
	OpLookup      = "lookup"      // Path, a name without a slash, is not in PATH
	OpExec        = "exec"        // Path is the file
	OpInterpreter = "interpreter" // Path exists, but what its first line or ELF header asks for does not
	OpFork        = "fork"        // no process could be made
	OpNamespaces  = "namespaces"  // none could be made in which the mounts are locked
	OpFilter      = "filter"      // the kernel refuses the filter of system calls
	OpLandlock    = "landlock"    // the kernel refuses the rules about files; Path is what one was about
	OpTrace       = "trace"       // the kernel refuses to have the command traced
)

// ExecError says why a command was not started.
type ExecError struct {
	Op    string        // one of the Op constants
	Path  string        // of what it was about, inside; empty where that is no file
	Errno syscall.Errno // what the kernel said; zero where it said nothing
}

// Error quotes the path.
func (e *ExecError) Error() string {
	msg := e.Op
	if e.Path != "" {
		// Quoted: the path is the command's, and may hold terminal escapes.
		msg += " " + strconv.Quote(e.Path)
	}
	switch {
	case e.Op == OpMounts:
		return msg + ": what should be mounted there is not"
	case e.Op == OpLookup && e.NotFound():
		return msg + ": not found in PATH"
	case e.Op == OpInterpreter:
		return msg + ": the file is there, but the interpreter or loader that it names is not"
	}
	return msg + ": " + e.Errno.Error()
}

// Unwrap gives the number, where there is one.
func (e *ExecError) Unwrap() error { return e.Errno }

// NotFound reports whether a shell would give 127: there is no such command,
// or its interpreter is missing.
func (e *ExecError) NotFound() bool {
	return e.executing() && (e.Errno == syscall.ENOENT || e.Errno == syscall.ENOTDIR)
}

// NotExecutable reports whether a shell would give 126: there is a file, but
// the kernel would not execute it. A script without #! counts, as in os/exec.
func (e *ExecError) NotExecutable() bool { return e.executing() && !e.NotFound() }

func (e *ExecError) executing() bool {
	return e.Op == OpLookup || e.Op == OpExec || e.Op == OpInterpreter
}

func knownOp(op string) bool {
	switch op {
	case OpMounts, OpChdir, OpTTY, OpRlimit, OpScript, OpLookup, OpExec, OpInterpreter, OpFork, OpNamespaces, OpFilter, OpLandlock, OpTrace:
		return true
	}
	return false
}
