package sandboxinit

import (
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// role returns the whole life of a process with the role of argv[1] and these descriptors; nil if
// they do not match. Its result is the exit status.
func role(name string, fds []int) func() int {
	last := -1 // for a role that needs none
	if len(fds) == 2 {
		last = fds[1]
	}
	var run func() int
	switch n := len(fds); {
	case name == initRole && n <= 2:
		run = waiting{control: fds[0], resets: last}.run
	case name == makeRole && n == 3:
		run = making{control: fds[0], others: [2]int(fds[1:])}.run
	case name == AloneArg && n == 1:
		run = runAlone
	case name == traceRole && n == 1:
		run = func() int { return runTracer(fds[0]) }
	default:
		return nil
	}
	return func() int { return hidden(run) }
}

// hidden runs a process into which the command, with the same uid, cannot look. It also keeps from
// the command the descriptors that the launcher leaked.
func hidden(run func() int) int {
	if err := proc.Hide(); err != nil {
		return proc.Complain("hiding", err)
	}
	proc.SetName("sbxhost-init")
	if err := proc.CloseOnExecFrom(3); err != nil {
		return proc.Complain("setting fds close-on-exec", err)
	}
	return run()
}

// runInit is an init that package containerinit has connected.
func runInit(control int) int { return hidden(waiting{control, -1}.run) }

// waiting is an init that has not received the command's stdio yet. That can take long, so
// meanwhile it does the work that the command would otherwise wait for. Nobody receives signals
// meanwhile.
type waiting struct {
	control int
	resets  int // a socket of that kind, see makeSockets, or negative
}

func (w waiting) run() int {
	s := newSupervisor()
	next, err := w.completion()
	if refused, ok := err.(*ExecError); ok {
		controlSocket(w.control).send(encodeRefused(refused))
		return refusedCode(refused)
	}
	if err == io.EOF {
		return proc.Failed
	}
	if err != nil {
		return proc.Complain("reading the command's stdio", err)
	}
	return s.run(next)
}

// serving is an init that has all except the command. The command's stdio follows its control
// socket.
type serving struct {
	waiting
	sockets int       // the init's end of a [Sockets], or negative
	from    *confined // the thread that starts the command, if its confinement came before it
}

// completion waits for a kindComplete. The command's stdio is behind a new number of the control
// socket. The command's confinement can come before that.
func (w waiting) completion() (next serving, err error) {
	next = serving{waiting: w, sockets: -1}
	from := frame.Receiver{Socket: w.control}
	defer func() { frame.CloseAll(from.Files) }()
	kind, payload, err := frame.Read(&from, maxCommand)
	if err == nil && kind == kindConfine {
		var by Confinement
		if err = frame.Decode(payload, &by); err == nil {
			err = validProgram(by.Filter)
		}
		if err != nil {
			return next, err
		}
		var refused *ExecError
		if next.from, refused = confineThread(&by, false); refused != nil {
			return next, refused
		}
		kind, payload, err = frame.Read(&from, maxRequest)
	}
	if err == nil && kind != kindComplete {
		err = frame.Malformed("out of turn")
	}
	if err == nil {
		err = frame.Decode(payload, empty{})
	}
	if err != nil {
		return next, err
	}
	if len(from.Files) != 3 && len(from.Files) != 4 {
		return next, frame.Malformed("without the command's stdio")
	}
	if next.control, err = proc.InARow(append([]int{w.control}, from.Files...)); err == nil {
		unix.Close(w.control)
	}
	if len(from.Files) == 4 {
		next.sockets = next.control + 4
	}
	return next, err
}

// making is an init that makes its sandbox itself, and then waits for its command.
type making struct {
	control int
	others  [2]int           // the mount and the user namespace that it must not be in
	alone   *holder.Solitude // if it also makes the tree
}

func (m making) run() int {
	socket := controlSocket(m.control)
	var box holder.Sandbox
	if err := receive(socket, kindSandbox, maxCommand, &box); err == io.EOF {
		return proc.Failed // the engine has died or given up
	} else if err != nil {
		return proc.Complain("reading what is to be made", err)
	}
	resets, failed := m.complete(box)
	if failed != nil {
		socket.send(frame.Encode(kindMountFailed, failed, 256))
		return proc.Failed
	}
	return waiting{m.control, resets}.run()
}

// complete makes the sandbox, and keeps only the capabilities for the command's namespaces.
func (m making) complete(box holder.Sandbox) (resets int, failed *holder.MountError) {
	made, failed := holder.Make(box, m.others, []int{0, 1, 2}, m.control+1, m.alone)
	unix.Close(m.others[0])
	unix.Close(m.others[1])
	if failed == nil {
		failed = made.Complete()
	}
	if failed != nil {
		return -1, failed
	}
	kept := 0
	for _, c := range holder.LockingCaps {
		kept |= 1 << c
	}
	if err := dropCapabilities(kept, m.control, made.Resets); err != nil {
		failed = &holder.MountError{Index: -1, Call: "dropping capabilities", Reason: err.Error(), Errno: errnoOf(err)}
	}
	return made.Resets, failed
}

// runAlone is the life of an init that starts before its sandbox is known, and makes the sandbox
// and the tree.
func runAlone() int {
	// A program that this process executes may gain no capability. A holder's thread would empty
	// the bounding set for that; here each thread has one, and to empty them all takes 2 ms.
	err := onEachThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	runtime.LockOSThread() // which dropByExec takes with it
	if err == syscall.ENOTSUP {
		err = confine.NoNewPrivileges()
	}
	if err != nil {
		return proc.Complain("prctl PR_SET_NO_NEW_PRIVS", err)
	}
	alone, words := holder.Settle()
	name, fds := parseArgs(words)
	if name != makeRole || len(fds) != 3 {
		return proc.Failed // its starter has ended, or needs none
	}
	os.Args = words // for closeInherited
	return making{fds[0], [2]int(fds[1:]), alone}.run()
}
