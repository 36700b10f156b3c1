package sandboxinit

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// role returns the whole life of a process with these arguments, if they are those of a role; else
// nil. Its result is the exit status.
func role(args []string) func() int {
	if len(args) < 3 {
		return nil
	}
	var run func() int
	switch fds := descriptors(args); {
	case args[1] == StandaloneArg:
		run = func() int { return runAlone(args[2:]) }
	case holder.Requested(args):
		return func() int { return holder.Main(args) }
	case args[1] == connectRole && len(args) == 3:
		run = func() int { return connect(args[2]) }
	case args[1] == initRole && (len(fds) == 1 || len(fds) == 2):
		run = func() int { return runInit(fds[0], append(fds, -1)[1], nil) }
	case args[1] == traceRole && len(fds) == 1:
		run = func() int { return runTracer(fds[0]) }
	default:
		return nil
	}
	return func() int { return hidden(run) }
}

// connect is the life of an init in a container.
func connect(socket string) int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	for connecting := err == nil; connecting; connecting = err == unix.EINTR {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
	}
	if err != nil {
		proc.Complain("connecting to "+strconv.Quote(socket), err)
		return Unreachable
	}
	return runInit(fd, -1, nil)
}

// hidden runs a process into which the command, with the same uid, cannot look. It also keeps from
// the command the descriptors that the launcher leaked.
func hidden(run func() int) int {
	proc.SetName("sbxhost-init") // names this thread: after a slow call, that may not be the first one any more
	if err := proc.Hide(); err != nil {
		return proc.Complain("hiding", err)
	}
	if err := proc.CloseOnExecFrom(3); err != nil {
		return proc.Complain("setting fds close-on-exec", err)
	}
	return run()
}

// runInit is the life of an init. resets is the raw socket for makeSockets, or negative. alone is for
// an init that also makes its tree; it may be nil.
func runInit(control, resets int, alone *holder.StandaloneBuilder) int {
	s := newSupervisor(control, resets)
	switch err := s.prepare(alone).(type) {
	case nil:
		return s.run()
	case *ExecError:
		s.control.send(encodeRefused(err))
		return proc.Failed
	case *holder.MountError:
		s.control.send(frame.Encode(kindMountFailed, err))
		return proc.Failed
	default:
		if err == io.EOF {
			return proc.Failed // the engine has died or given up
		}
		return proc.Complain("preparing for a command", err)
	}
}

// prepare obeys the messages up to kindComplete. That can take long to come, so meanwhile the init
// does the work that the command would otherwise wait for.
func (s *supervisor) prepare(alone *holder.StandaloneBuilder) error {
	from := frame.Receiver{Socket: int(s.control)}
	defer func() { frame.CloseAll(from.Files) }()
	for {
		kind, payload, err := frame.Read(&from, maxCommand)
		if err != nil {
			return err
		}
		switch kind {
		case kindSandbox:
			err = s.makeSandbox(payload, alone)
		case kindConfine:
			err = s.confine(payload)
		case kindComplete:
			return s.complete(from.Files)
		default:
			err = frame.Malformed("out of turn")
		}
		if err != nil {
			return err
		}
	}
}

// makeSandbox makes the sandbox, and keeps only the capabilities that the command's namespaces need.
func (s *supervisor) makeSandbox(payload []byte, alone *holder.StandaloneBuilder) error {
	var box holder.Sandbox
	if err := frame.Decode(payload, &box); err != nil {
		return err
	}
	resets, err := holder.Make(box, []int{0, 1, 2}, int(s.control)+1, alone)
	if err != nil {
		return err
	}
	s.resets = resets
	kept := 0
	if !ownMaps().oneUser {
		for _, c := range holder.LockingCaps {
			kept |= 1 << c
		}
	}
	if err := dropCapabilities(kept, int(s.control), resets); err != nil {
		return &holder.MountError{Index: -1, Call: "dropping capabilities", Reason: err.Error(), Errno: errnoOf(err)}
	}
	return nil
}

// confine makes the thread that will start the command.
func (s *supervisor) confine(payload []byte) error {
	var by Confinement
	err := frame.Decode(payload, &by)
	if err == nil {
		err = validProgram(by.Filter)
	}
	if err != nil {
		return err
	}
	var refused *ExecError
	if s.confinedThread, refused = confineThread(&by, false); refused != nil {
		return refused
	}
	return nil
}

// complete moves the control socket to a new number, which the command's stdio follows, and then the
// init's end of a Sockets, if there is one.
func (s *supervisor) complete(files []int) error {
	if len(files) != 3 && len(files) != 4 {
		return frame.Malformed("without the command's stdio")
	}
	control, err := proc.InARow(append([]int{int(s.control)}, files...))
	if err != nil {
		return err
	}
	unix.Close(int(s.control))
	s.control = controlSocket(control)
	if len(files) == 4 {
		go makeSockets(control+4, s.resets)
	}
	return nil
}

// runAlone is the life of an init that starts before its sandbox is known, and makes the sandbox
// and the tree.
func runAlone(starter []string) int {
	// A program that this process executes may gain no capability. A holder's thread would empty
	// the bounding set for that; here each thread has one, and to empty them all takes 2 ms.
	err := onEachThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	if err == syscall.ENOTSUP {
		runtime.LockOSThread() // dropByExec takes it with it
		err = confine.NoNewPrivileges()
	}
	if err != nil {
		return proc.Complain("prctl PR_SET_NO_NEW_PRIVS", err)
	}
	ownMaps() // now, while nobody waits for it
	alone, words := holder.BecomeStandalone(starter)
	fds := descriptors(words)
	if len(fds) != 1 || words[1] != initRole {
		return proc.Failed // its starter has ended, or needs none
	}
	os.Args = words // for closeInherited
	return runInit(fds[0], -1, alone)
}
