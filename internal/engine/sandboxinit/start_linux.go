package sandboxinit

import (
	"cmp"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// child is the started command.
type child struct {
	startedMessage
	// forkedCommand is a traced command, which waits for its tracer.
	forkedCommand *forkedCommand
}

// start runs the command with fds control+1 to control+3 as its stdio. from is the thread that
// starts it, nil for a new one.
func start(cmd *Command, control int, from *confinedThread) (none child, refused *ExecError) {
	if refused = inPlace(cmd.Mounts); refused != nil {
		return none, refused
	}
	if cmd.Dir != "" {
		// The init itself moves there, so that a relative name of the command means the same to
		// these checks and to exec.
		if err := syscall.Chdir(cmd.Dir); err != nil {
			return none, execError(OpChdir, cmd.Dir, err)
		}
	}
	if cmd.TTY {
		if _, err := unix.IoctlGetTermios(control+1, unix.TCGETS); err != nil {
			return none, execError(OpTTY, "", err)
		}
	}
	prog, refused := Resolve(cmd.Args, cmd.Script, cmd.Env, "", scriptFD)
	if refused != nil {
		return none, refused
	}
	files := []int{control + 1, control + 2, control + 3}
	if prog.Script != "" {
		script, err := Sealed("script", prog.Script)
		if err != nil {
			return none, execError(OpScript, "", err)
		}
		defer script.Close()
		files = append(files, int(script.Fd()))
	}
	if from == nil {
		if from, refused = confineThread(&cmd.Confinement, cmd.TTY, control+1, control+2, control+3); refused != nil {
			return none, refused
		}
	}
	u, refused := prepare(cmd, from.confinement, prog, files)
	if refused == nil {
		from.thread.Do(func() {
			refused = u.fork()
		})
	}
	from.thread.End()
	if refused != nil {
		u.close()
		return none, refused
	}
	c := child{startedMessage{from.scoped, from.rooted, u.pid}, u}
	if from.confinement.Locked {
		// With the capabilities for its namespaces the command could take the mounts apart: it has
		// this process's user number.
		if err := dropLocking(); err != nil {
			u.end()
			return c, execError(OpFork, "", err)
		}
	}
	if len(cmd.Trace) > 0 {
		return c, nil
	}
	return c, u.begin()
}

// A confinedThread has put itself into a Landlock domain, or under a filter of system calls. Its
// child inherits that, and the rest of the init is outside: the init's signals still reach the
// command, but the command's do not reach the init. A command without either also starts on such a
// thread, and not on the first one. A thread blocks signals while it forks, and a signal to pid 1
// that the first thread blocks kills pid 1.
type confinedThread struct {
	confinement    *Confinement
	scoped, rooted bool
	thread         *proc.Thread
}

// confineThread makes a confinedThread. stdio are the command's descriptors, if they have arrived;
// tty says that the command has a terminal.
func confineThread(by *Confinement, tty bool, stdio ...int) (*confinedThread, *ExecError) {
	c := &confinedThread{confinement: by, thread: proc.NewThread()}
	var refused *ExecError
	c.thread.Do(func() { refused = c.bind(by, tty, stdio) })
	if refused != nil {
		c.thread.End()
	}
	return c, refused
}

// bind applies a command's confinement to the calling thread.
func (c *confinedThread) bind(by *Confinement, tty bool, stdio []int) *ExecError {
	if by.Landlock != nil {
		var terminal []int
		if tty {
			terminal = stdio[:1]
		}
		err := by.Landlock.Enter(terminal...)
		if err == nil {
			err = confine.GiveUpCapabilities()
		}
		if err != nil {
			return execError(OpLandlock, restricted(err), err)
		}
	}
	root := by.root()
	if c.rooted = root != nil; !c.rooted {
		c.scoped = by.Scope && confine.Scope.Enter() == nil
	} else {
		if c.scoped = root.Scoped != 0; !by.Locked {
			if err := root.Enter(stdio...); err != nil {
				return execError(OpLandlock, restricted(err), err)
			}
		}
	}
	if by.Locked { // the child enters that, and loads the filter
		if err := confine.NoNewPrivileges(); err != nil {
			return execError(OpFilter, "", err)
		}
	} else if len(by.Filter) > 0 {
		if err := confine.Filter(by.Filter); err != nil {
			return execError(OpFilter, "", err)
		}
	}
	return nil
}

// root is the domain of Rooted; nil without it, or if the kernel has none.
func (by *Confinement) root() *confine.Landlock {
	if !by.Rooted {
		return nil
	}
	return confine.Rooted(by.Writable, by.Scope)
}

// restricted is the path of a Landlock rule that failed, or "".
func restricted(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Path
	}
	return ""
}

// scriptFD is where the shell finds a long script: after the command's stdio.
const scriptFD = 3

// execFailure finds out whether the file is missing or its interpreter.
func execFailure(path string, errno syscall.Errno) *ExecError {
	if errno == syscall.ENOENT || errno == syscall.ENOTDIR {
		var st syscall.Stat_t
		if syscall.Stat(path, &st) == nil {
			return &ExecError{OpInterpreter, path, syscall.ENOENT}
		}
	}
	if errno == syscall.EACCES {
		errno = cmp.Or(Executable(path), errno) // a directory
	}
	return &ExecError{OpExec, path, errno}
}

func execError(op Op, path string, err error) *ExecError {
	return &ExecError{op, path, errnoOf(err)}
}

// inPlace refuses a view with other mounts than the launcher had to make.
func inPlace(mounts []Mount) *ExecError {
	for _, m := range mounts {
		st, err := m.look()
		switch {
		case err == unix.ELOOP:
			err = syscall.ESTALE
		case err != nil:
		case st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0, // also on kernels before 5.8, which do not report it
			m.Ino != 0 && (st.Ino != m.Ino || unix.Mkdev(st.Dev_major, st.Dev_minor) != m.Dev):
			err = syscall.ESTALE
		}
		if err != nil {
			return execError(OpMounts, m.Path, err)
		}
	}
	return nil
}

func (m *Mount) look() (st unix.Statx_t, err error) {
	open := hostpath.OpenNoSymlinks
	if m.Linked {
		open = unix.Open
	}
	fd, err := open(m.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st)
	return st, err
}
