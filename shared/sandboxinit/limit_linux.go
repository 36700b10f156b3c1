package sandboxinit

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared/frame"
	"github.com/sbxhost/sbxhost/shared/holder"
	"github.com/sbxhost/sbxhost/shared/proc"
	"github.com/sbxhost/sbxhost/shared/sandboxinit/confine"
)

// Resource limits belong to a process, so they must be set between fork and
// exec, where Go has no hook. A few the init can bear itself, which forks once
// and opens nothing afterwards: it sets them just before.
//
// The others would end the init (RLIMIT_AS), or keep it from making a thread
// (RLIMIT_NPROC). For those the forked child is this executable once more, a
// millisecond dearer, which takes the program over a socket - its environment
// is the command's, and must not reach the Go runtime -, sets the limits, and
// executes the program in its place. The socket is close-on-exec: its end is success.

// bearable reports whether the init can live under all of the limits.
func bearable(limits []Rlimit) bool {
	for _, l := range limits {
		switch l.Resource {
		case unix.RLIMIT_CORE, unix.RLIMIT_FSIZE:
		case unix.RLIMIT_NOFILE:
			if l.Soft < 64 {
				return false // fork itself opens a pipe
			}
		default:
			return false
		}
	}
	return true
}

// forkBearing starts the program from an init that has taken on the limits.
func forkBearing(cmd *Command, prog Program, files []uintptr) (int, *ExecError) {
	for _, l := range cmd.Rlimits {
		// By package syscall, which then no longer restores RLIMIT_NOFILE at exec.
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return 0, execError(OpRlimit, resourceName(l.Resource), err)
		}
	}
	return forkExec(cmd, prog, files)
}

// A stage is a process between fork and exec, and what it has not been told yet.
type stage struct {
	pid     int
	line    controlSocket
	request []byte
}

// begin has a stage execute the program.
func (s *stage) begin() *ExecError {
	defer syscall.Close(int(s.line))
	s.line.send(s.request)
	refused := limitOutcome(s.line)
	if refused != nil {
		s.end()
	}
	return refused
}

// end ends a stage that has executed nothing.
func (s *stage) end() {
	syscall.Kill(s.pid, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(s.pid, nil, 0, nil); err != syscall.EINTR {
			break
		}
	}
}

// forkStage forks a stage, which waits for its request. by is what its thread is kept from.
func forkStage(cmd *Command, by *Confinement, prog Program, files []uintptr) (*stage, *ExecError) {
	told := &Command{
		Args:    append([]string{prog.Path}, prog.Argv...),
		Env:     cmd.Env,
		Rlimits: cmd.Rlimits,
		Trace:   cmd.Trace,
	}
	if told.Locked = by.Locked; by.Locked {
		// Under these no namespaces are made, and the stage's program is not found.
		told.Filter, told.Rooted, told.Writable, told.Scope = by.Filter, by.Rooted, by.Writable, by.Scope
	}
	request, err := encodeCommand(told)
	if err != nil {
		return nil, &ExecError{OpExec, prog.Path, syscall.E2BIG}
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, execError(OpFork, "", err)
	}
	ours, theirs := controlSocket(pair[0]), pair[1]

	files = append(files, uintptr(theirs))
	sys := session(cmd)
	if by.Locked {
		defer locked(sys)()
	}
	pid, err := syscall.ForkExec("/proc/self/exe",
		[]string{initArg, limitArg, strconv.Itoa(len(files) - 1)},
		&syscall.ProcAttr{Files: files, Sys: sys})
	syscall.Close(theirs)
	if err != nil {
		syscall.Close(int(ours))
		if errno := errnoOf(err); by.Locked && !cmd.TTY && (errno == syscall.EPERM || errno == syscall.ENOSPC || errno == syscall.EUSERS) {
			return nil, execError(OpNamespaces, "", err)
		}
		if refused := startError(cmd, "", err); refused.Op != OpExec {
			return nil, refused
		}
		return nil, execError(OpFork, "", err)
	}
	return &stage{pid, ours, request}, nil
}

// locked has a child made in a user and a mount namespace of its own, in which all users are what they
// are. Its result is to be called once the child is there. It is these two at once that have the kernel
// lock the mounts.
func locked(sys *syscall.SysProcAttr) (forked func()) {
	sys.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	sys.UidMappings, sys.GidMappings = identity("/proc/self/uid_map", os.Geteuid()), identity("/proc/self/gid_map", os.Getegid())
	sys.AmbientCaps = []uintptr{unix.CAP_SETPCAP} // for GiveUpCapabilities
	// What is not dumpable belongs to root: without that, this process could not write the
	// child's map. Other commands are in user namespaces of their own.
	unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	return func() { unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
}

// identity maps what a file of /proc maps, or one number alone, to itself.
func identity(path string, own int) []syscall.SysProcIDMap {
	if list, err := holder.IdentityMap(path); err == nil {
		return list
	}
	return []syscall.SysProcIDMap{{ContainerID: own, HostID: own, Size: 1}}
}

// limitOutcome waits for the stage to report a failure or to be replaced.
func limitOutcome(stage controlSocket) *ExecError {
	refused := &ExecError{}
	switch err := receive(stage, kindRefused, maxReport, refused); {
	case errors.Is(err, ErrProtocol):
		return &ExecError{OpFork, "", syscall.EPROTO}
	case err != nil:
		return nil // executed; or dead, as its wait status will tell
	}
	return refused
}

// runLimitStage is the process between fork and exec.
func runLimitStage(fd int) int {
	socket := controlSocket(fd)
	syscall.CloseOnExec(fd)
	cmd := &Command{}
	if receive(socket, kindCommand, maxCommand, cmd) != nil || cmd.validate() != nil || len(cmd.Args) < 2 {
		return proc.Failed
	}
	// The thread that is traced, or gives up what it can, is the one that executes.
	runtime.LockOSThread()
	if len(cmd.Trace) > 0 {
		socket.send(frame.Encode(kindWaiting, &waiting{syscall.Gettid()}, 4))
		if receive(socket, kindSeized, 0, nothing{}) != nil {
			return proc.Failed
		}
	}
	socket.send(encodeRefused(limitAndExec(cmd)))
	return proc.Failed
}

// limitAndExec returns only if it fails.
func limitAndExec(cmd *Command) *ExecError {
	path, err := syscall.BytePtrFromString(cmd.Args[0])
	if err != nil {
		return execError(OpExec, cmd.Args[0], err)
	}
	argv, err := syscall.SlicePtrFromStrings(cmd.Args[1:])
	if err != nil {
		return execError(OpExec, cmd.Args[0], err)
	}
	env, err := syscall.SlicePtrFromStrings(cmd.Env)
	if err != nil {
		return execError(OpExec, cmd.Args[0], err)
	}
	restoreNOFILE()
	if cmd.Locked {
		if err := confine.GiveUpCapabilities(); err != nil {
			return execError(OpFork, "", err)
		}
		if root := cmd.root(); root != nil {
			if err := root.Enter(0, 1, 2); err != nil {
				return execError(OpLandlock, restricted(err), err)
			}
		}
	}

	// From here to exec nothing may allocate: with RLIMIT_AS or RLIMIT_DATA set,
	// the Go runtime could get no memory.
	failed, errno := setLimits(cmd.Rlimits)
	if errno == 0 && len(cmd.Filter) > 0 {
		if errno = confine.LoadFilter(cmd.Filter); errno != 0 {
			return &ExecError{OpFilter, "", errno}
		}
	}
	if errno == 0 && len(cmd.Trace) > 0 {
		if errno = confine.LoadFilter(cmd.Trace); errno != 0 {
			return &ExecError{OpTrace, "", errno}
		}
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		runtime.KeepAlive(argv)
		runtime.KeepAlive(env)
		return execFailure(cmd.Args[0], errno)
	}
	return &ExecError{OpRlimit, resourceName(cmd.Rlimits[failed].Resource), errno}
}

func setLimits(limits []Rlimit) (failed int, errno syscall.Errno) {
	for i := range limits {
		l := [2]uint64{limits[i].Soft, limits[i].Hard}
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(limits[i].Resource),
			uintptr(unsafe.Pointer(&l)), 0, 0, 0)
		if errno != 0 {
			return i, errno
		}
	}
	return 0, 0
}

// restoreNOFILE undoes the raising of the soft limit by Go's package syscall: a command's limits
// are its caller's. The package remembers the original for no one but its own exec, and that
// allocates, which is no longer possible under the command's limits. So exec nothing.
func restoreNOFILE() { _ = syscall.Exec("", []string{""}, nil) }

func resourceName(n int) string {
	names := [...]string{
		unix.RLIMIT_CPU: "CPU", unix.RLIMIT_FSIZE: "FSIZE", unix.RLIMIT_DATA: "DATA",
		unix.RLIMIT_STACK: "STACK", unix.RLIMIT_CORE: "CORE", unix.RLIMIT_RSS: "RSS",
		unix.RLIMIT_NPROC: "NPROC", unix.RLIMIT_NOFILE: "NOFILE", unix.RLIMIT_MEMLOCK: "MEMLOCK",
		unix.RLIMIT_AS: "AS", unix.RLIMIT_LOCKS: "LOCKS", unix.RLIMIT_SIGPENDING: "SIGPENDING",
		unix.RLIMIT_MSGQUEUE: "MSGQUEUE", unix.RLIMIT_NICE: "NICE", unix.RLIMIT_RTPRIO: "RTPRIO",
		unix.RLIMIT_RTTIME: "RTTIME",
	}
	if n >= 0 && n < len(names) {
		return "RLIMIT_" + names[n]
	}
	return "resource " + strconv.Itoa(n)
}
