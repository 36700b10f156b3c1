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
	// Args is the command and its arguments. A name without a slash is found in the absolute
	// elements of the PATH of Env; one with a slash is relative to Dir. With a Script, Args are its
	// positional parameters.
	Args []string

	// Script is shell text. The init runs it with bash, from the PATH of Env or /bin or /usr/bin,
	// else with sh: bash -c SCRIPT bash ARGS. A text that does not fit into one argument is sourced
	// from a sealed file in memory (fd 3, closed before its first command): $0, parameters, line
	// numbers and exit status are the same; only `return` at the top level then ends it quietly.
	Script string

	// Env is the whole environment, as KEY=VALUE.
	Env []string

	// Dir is the working directory inside the sandbox. Empty means the launcher's.
	Dir string

	// TTY makes stdin, which must be a terminal, the controlling terminal.
	TTY bool

	// Confinement is what the command may not do. With Confined it came before, by [Conn.Confine].
	Confinement
	Confined bool

	// Fresh is a directory inside, in memory that ends with the command. [Status.NewFiles] counts
	// what the command leaves in it. It may be empty.
	Fresh string

	// Mounts are the mounts that must be there, or the command does not start. If a launcher mounts by
	// path, another command can lead the mount elsewhere, with a symlink at the right moment.
	Mounts []Mount

	// SharedLimits says that the command can use up the init's resources, as in a control group
	// with both. Then the init makes the threads that it will need beforehand, and makes the kernel
	// kill a process of the command first when memory is used up. Otherwise either shortage could end
	// the init, and with pid 1 everything, and nobody could report the command's end.
	SharedLimits bool

	// Apart says that the init is one of several in the pid namespace of an init with
	// [Conn.Reside]. What the command leaves running when it ends goes on; a kill ends all that it
	// has started. It is not traced.
	Apart bool

	// Rlimits are set for the command alone, in this order.
	Rlimits []Rlimit

	// Trace is a program, in Filter's form, that stops the command at the calls of package traced,
	// so that [Conn.Traced] has those that fail. Empty traces nothing. A command that cannot be
	// traced does not start. Its tracer is its parent, and if that is killed the command ends.
	Trace []byte
}

// Confinement is what the thread that starts a command, and so the command, may not do.
type Confinement struct {
	// Scope keeps the command from abstract unix sockets, and from signalling processes, outside
	// itself (Landlock ABI 6), and sets no_new_privs. [Conn.Scoped] says whether the kernel
	// enforces it.
	Scope bool

	// Landlock, if not nil, keeps the command from files, takes all its capabilities and sets
	// no_new_privs. It is for launchers without namespaces, or for no launcher. If the kernel
	// refuses it, the command does not start.
	Landlock *confine.Landlock

	// Rooted keeps the command from opening files outside of its root directory, through a
	// descriptor from a command of another sandbox, and from writing elsewhere than beneath
	// Writable, if that is not empty (Landlock ABI 2). [Conn.Rooted] says whether the kernel
	// enforces it. The command cannot mount either.
	Rooted   bool
	Writable []string

	// Locked gives the command a user and a mount namespace of its own, whose mounts the kernel
	// keeps together. Otherwise a descriptor that one command passes to another would lose its
	// protecting and hiding mounts when the first has ended and the kernel takes its mounts apart.
	// And commands with the same uid could enter its root directory by /proc, and read its
	// environment.
	Locked bool

	// Filter is a program for system calls, an array of struct sock_filter in the machine's byte
	// order, for launchers that cannot load one. It applies to the command alone, in addition to
	// the launcher's, and sets no_new_privs. If the kernel refuses it, the command does not start.
	Filter []byte
}

// A Mount is a path on which something must be mounted.
type Mount struct {
	Path string // inside
	// Linked says that Path may lead through symlinks: no command can have made them.
	Linked bool
	// Dev and Ino are those of the file or directory that must show there, from stat; an Ino of
	// zero means any.
	Dev, Ino uint64
}

// Rlimit is one resource limit, in the kernel's unit for that resource. The greatest uint64 is
// unlimited.
type Rlimit struct {
	Resource   int // RLIMIT_*, in the numbers of the init's system
	Soft, Hard uint64
}

// Rlimits are those of each command. An openFiles of zero means no limit of open files.
func Rlimits(openFiles uint64) []Rlimit {
	// No core dumps: the kernel, or the host's handler, would write the command's memory to the
	// workspace or elsewhere.
	limits := []Rlimit{{Resource: unix.RLIMIT_CORE}}
	if openFiles > 0 {
		limits = append(limits, Rlimit{Resource: unix.RLIMIT_NOFILE, Soft: openFiles, Hard: openFiles})
	}
	return limits
}

const maxFilter = 8 * 4096 // BPF_MAXINSNS

// validate refuses what an init could not pass on to the kernel. It does not predict what a kernel
// refuses.
func (c *Command) validate() error {
	if len(c.Args) == 0 && c.Script == "" {
		return errors.New("command: both args and script are empty")
	}
	return errors.Join(validProgram(c.Filter), validProgram(c.Trace))
}

func validProgram(p []byte) error {
	if len(p) > maxFilter || len(p)%8 != 0 {
		return errors.New("command: a filter must be at most 4096 instructions of 8 bytes")
	}
	return nil
}

// Status is how the command ended.
type Status struct {
	// Code is the exit status, 0 to 255, or -1 if a signal ended the command.
	Code int
	// Signal is the number of the signal that ended the command, else 0.
	Signal int
	// CoreDumped says that the kernel reports a core dump.
	CoreDumped bool
	// NewFiles is the number of new files in Command.Fresh that somebody may miss.
	NewFiles uint64
	// Alone says that nothing that the command started still runs.
	Alone bool
	// Ended is the number of processes that still ran and were ended with a command that exited.
	Ended uint64
	// CPU and Memory are the use of the command and of all that the init has waited for: processor time
	// in nanoseconds, and peak bytes of the largest process. They are zero after [Conn.Kill]: nobody
	// has waited for the command.
	CPU, Memory uint64
}

// An Op is a step at which a command can fail to start.
type Op uint8

const (
	OpMounts      Op = iota // one of Mounts is not at Path
	OpChdir                 // Path is the directory
	OpTTY                   // stdin is not a terminal, or controls another session
	OpRlimit                // Path names the resource
	OpScript                // the script could not be passed
	OpLookup                // Path, a name without a slash, is not in PATH
	OpExec                  // Path is the file
	OpInterpreter           // Path exists, but the interpreter or loader in its first line or ELF header does not
	OpFork                  // no process could be made
	OpNamespaces            // no namespaces with locked mounts were possible
	OpFilter                // the kernel refuses the filter of system calls
	OpLandlock              // the kernel refuses the rules on files; Path is that of the rule
	OpTrace                 // the kernel refuses to trace the command
	ops
)

func (o Op) String() string {
	return [...]string{"mounts", "chdir", "tty", "rlimit", "script", "lookup", "exec", "interpreter", "fork", "namespaces", "filter", "landlock", "trace"}[o]
}

// ExecError says why a command did not start.
type ExecError struct {
	Op    Op
	Path  string        // the file, inside; may be empty
	Errno syscall.Errno // the kernel's answer; may be zero
}

// Error quotes the path.
func (e *ExecError) Error() string {
	msg := e.Op.String()
	if e.Path != "" {
		// Quoted: the path is the command's, and may contain terminal commands.
		msg += " " + strconv.Quote(e.Path)
	}
	switch {
	case e.Op == OpMounts:
		return msg + ": the mount that should be there is missing"
	case e.Op == OpLookup && e.NotFound():
		return msg + ": not found in PATH"
	case e.Op == OpInterpreter:
		return msg + ": the file exists, but its interpreter or loader does not"
	}
	return msg + ": " + e.Errno.Error()
}

// Unwrap returns the number, if there is one.
func (e *ExecError) Unwrap() error { return e.Errno }

// NotFound reports whether a shell would return 127: the command does not exist, or its interpreter
// is missing.
func (e *ExecError) NotFound() bool {
	return e.executing() && (e.Errno == syscall.ENOENT || e.Errno == syscall.ENOTDIR)
}

// NotExecutable reports whether a shell would return 126: there is a file, but the kernel would not
// execute it. A script without #! counts, as in os/exec.
func (e *ExecError) NotExecutable() bool { return e.executing() && !e.NotFound() }

func (e *ExecError) executing() bool {
	return e.Op == OpLookup || e.Op == OpExec || e.Op == OpInterpreter
}
