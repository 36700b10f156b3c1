package cmdengine

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/shared"
)

// reapPatience bounds the wait for killed processes: the kernel may hold one in a dead file system
// forever.
const reapPatience = 2 * time.Second

// checkDir distinguishes a bad directory from a bad command; fork and exec report the same.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	var errno syscall.Errno
	if dir == "" || !errors.As(err, &errno) {
		return nil
	}
	return execError(&sandboxinit.ExecError{Op: sandboxinit.OpChdir, Path: dir, Errno: errno}, whereDirect)
}

// directRun is a command that the engine forked itself, the leader of a session and of a process
// group.
type directRun struct {
	process *os.Process
	ended   func()       // may be nil
	usage   shared.Usage // valid after Wait

	mu     sync.Mutex // keeps the group's number valid while it is signalled
	reaped bool
}

func (r *directRun) Wait() (shared.ExitStatus, error) {
	if r.ended != nil {
		defer r.ended()
	}
	pid := r.process.Pid
	proc.Await(pid)
	state, err := r.reap(pid)
	if err != nil {
		return shared.ExitStatus{}, broken("waiting for the command: " + err.Error())
	}
	if syscall.Kill(-pid, 0) != syscall.ESRCH {
		awaitGroup(pid)
	}
	r.usage = usageOf(state)
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return shared.ExitStatus{Signal: status.Signal(), CoreDumped: status.CoreDump()}, nil
	}
	return shared.ExitStatus{Code: status.ExitStatus()}, nil
}

func (r *directRun) Usage() shared.Usage { return r.usage }

func (*directRun) remarks() []shared.Event { return nil }

func (*directRun) finish() {}

// usageOf is the usage of a process and of those that it waited for.
func usageOf(state *os.ProcessState) shared.Usage {
	u := shared.Usage{CPU: state.UserTime() + state.SystemTime()}
	if counted, ok := state.SysUsage().(*syscall.Rusage); ok {
		u.Memory = uint64(counted.Maxrss)
		if runtime.GOOS != "darwin" {
			u.Memory <<= 10 // it counts kilobytes
		}
	}
	return u
}

func (r *directRun) Signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reaped {
		return os.ErrProcessDone
	}
	switch err := syscall.Kill(-r.process.Pid, sig); err {
	case nil:
		return nil
	case syscall.ESRCH:
		return os.ErrProcessDone
	case syscall.EPERM:
		return &shared.Error{Kind: shared.ErrDenied, Message: "the command's processes now belong to another user"}
	default:
		return invalid("signal", "", "%v", err)
	}
}

func (r *directRun) Kill() error { return r.Signal(syscall.SIGKILL) }
