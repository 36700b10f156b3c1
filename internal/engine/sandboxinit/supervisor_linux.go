package sandboxinit

import (
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// supervisor is the init of one command.
type supervisor struct {
	control        controlSocket
	resets         int             // the socket of that kind, or negative
	confinedThread *confinedThread // the thread that starts the command, if its confinement came before it
	pidOne         bool
	apart          bool // see Command.Apart
	// group is the command's process group; 0 before it runs.
	group atomic.Int32
	// ending says to kill everything that still exists.
	ending atomic.Bool
	// killAllAtEnd says to do so when the command has ended.
	killAllAtEnd atomic.Bool
	freshDir     freshDir
	// tracer is the parent of a traced command; nil for others, whose parent is the init.
	tracer *tracerProcess

	reporting sync.Mutex
	reported  bool
}

// newSupervisor handles signals as the init of a command does.
func newSupervisor(control, resets int) *supervisor {
	s := &supervisor{control: controlSocket(control), resets: resets, pidOne: os.Getpid() == 1}
	if s.pidOne {
		proc.IgnoreSignals()
	} else {
		s.passSignals()
	}
	return s
}

// run starts the command and waits for its end.
func (s *supervisor) run() int {
	if !s.pidOne {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return proc.Complain("prctl PR_SET_CHILD_SUBREAPER", err)
		}
	}
	cmd, err := s.receiveCommand()
	switch {
	case err == io.EOF:
		return proc.Failed // the engine has died or given up
	case err != nil:
		return proc.Complain("reading the command", err)
	case cmd == nil:
		return s.reside()
	}
	s.apart = cmd.Apart && !s.pidOne
	s.freshDir = freshDir{cmd.Fresh, inodesUsed(cmd.Fresh)}
	if cmd.SharedLimits {
		makeThreads(spareThreads)
	}
	child, refused := s.begin(cmd)
	if refused != nil {
		s.control.send(encodeRefused(refused))
		return proc.Failed
	}
	s.group.Store(int32(child.pid))
	s.control.send(frame.Encode(kindStarted, &child.startedMessage))
	// The engine's readers see the end of the command's output when the command closes it, not when
	// the init ends.
	closeInherited(int(s.control))

	go s.serveRequests()
	if s.tracer != nil {
		return s.reap(s.tracer.pid)
	}
	return s.reap(child.pid)
}

// receiveCommand returns nil for an init without a command.
func (s *supervisor) receiveCommand() (*Command, error) {
	kind, payload, err := frame.Read(s.control, maxCommand)
	switch {
	case err != nil:
		return nil, err
	case kind == kindReside && s.pidOne:
		return nil, nil
	case kind != kindCommand:
		return nil, frame.Malformed("out of turn")
	}
	cmd := &Command{}
	if err = frame.Decode(payload, cmd); err == nil {
		err = cmd.validate()
	}
	if err == nil && cmd.Confined != (s.confinedThread != nil) {
		err = frame.Malformed("a command with another confinement")
	}
	return cmd, err
}

// reside is the life of an init that is pid 1 for the commands of other inits.
func (s *supervisor) reside() int {
	if err := dropLocking(); err != nil { // it starts no command
		return proc.Complain("dropping capabilities", err)
	}
	signal.Ignore(syscall.SIGCHLD) // the kernel reaps
	closeInherited(int(s.control))
	s.control.send(frame.Encode(kindStarted, &startedMessage{}))
	s.serveRequests() // ends this process, and with it all others
	return proc.Failed
}

// begin starts the command, through a tracer or as the init's own child.
func (s *supervisor) begin(cmd *Command) (child, *ExecError) {
	if len(cmd.Trace) > 0 {
		return s.beginTraced(cmd)
	}
	if cmd.SharedLimits {
		defer offerChildren()()
	}
	return start(cmd, int(s.control), s.confinedThread)
}

// reap collects every child, with orphans that were reparented here. As pid 1 it ends with the
// command, otherwise when no child is left.
func (s *supervisor) reap(command int) (code int) {
	code = proc.Failed
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.ECHILD:
			return code
		case err != nil:
			return proc.Complain("wait4", err)
		case pid != command || !ws.Exited() && !ws.Signaled():
			if s.ending.Load() {
				killChildren() // they may have new siblings
			}
			continue
		}
		status := statusOf(ws)
		if s.tracer != nil {
			status = s.tracer.status()
		}
		code = 0 // how it ended is in the report
		status.Alone = childless()
		stays := s.apart && !s.ending.Load() && !s.killAllAtEnd.Load() // what it has left is the session's
		if !status.Alone && !stays && status.Signal == 0 {
			status.Ended = running(os.Getpid())
		}
		status.CPU, status.Memory = usedByChildren()
		s.report(status)
		if stays {
			proc.Exit(code)
		}
		s.end(code)
	}
}

func statusOf(ws syscall.WaitStatus) Status {
	if ws.Signaled() {
		return Status{Code: -1, Signal: int(ws.Signal()), CoreDumped: ws.CoreDump()}
	}
	return Status{Code: ws.ExitStatus()}
}

// killed is the status of a command for which nobody could wait.
var killed = Status{Code: -1, Signal: int(syscall.SIGKILL)}

// usedByChildren is the kernel's count for the processes that were waited for; zero if unknown.
func usedByChildren() (cpu, memory uint64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return 0, 0
	}
	return uint64(u.Utime.Nano() + u.Stime.Nano()), uint64(u.Maxrss) << 10
}

// report reports the command's end to the engine, once.
func (s *supervisor) report(status Status) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	if s.reported {
		return
	}
	s.reported = true
	status.NewFiles = s.freshDir.countNew()
	end := endedMessage{status: status}
	if s.tracer != nil {
		end.failed.Calls = s.tracer.conn.Traced()
	}
	s.control.send(frame.Encode(kindEnded, &end))
}

// end leaves nothing of the command behind. When pid 1 exits, the kernel does that; otherwise reap
// completes what this begins.
func (s *supervisor) end(code int) {
	if s.pidOne {
		proc.Exit(code)
	}
	s.ending.Store(true)
	s.signal(syscall.SIGKILL)
	killChildren()
}

// serveRequests obeys the engine until it is gone or sends an invalid message.
func (s *supervisor) serveRequests() {
	for {
		k, payload, err := frame.Read(s.control, maxRequest)
		switch {
		case err == nil && k == kindSignal:
			var m signalRequest
			if frame.Decode(payload, &m) == nil {
				s.pass(syscall.Signal(m.number))
				continue
			}
		case err == nil && k == kindKillAllAtEnd:
			s.killAllAtEnd.Store(true)
			continue
		case err == nil && k == kindKill:
			s.report(killed)
			s.end(0)
			return
		}
		s.end(proc.Failed)
		return
	}
}

func (s *supervisor) signal(sig syscall.Signal) {
	if group := int(s.group.Load()); group > 0 {
		syscall.Kill(-group, sig)
	}
}

// pass passes a signal on, and answers if the command got it: the kernel also accepts one for a
// process that exits, and then drops it.
func (s *supervisor) pass(sig syscall.Signal) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	group := int(s.group.Load())
	const exiting = 4
	flags, _ := strconv.Atoi(proc.Stat(group, proc.StatFlags))
	if group > 0 && syscall.Kill(-group, sig) != syscall.ESRCH && flags&exiting == 0 && !s.reported {
		s.control.send(frame.Encode(kindSignalled, empty{}))
	}
}

// passed are the signals that an init which is not pid 1 passes to the command. As pid 1 it accepts
// signals from nobody: the engine uses the control socket.
var passed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

func (s *supervisor) passSignals() {
	received := make(chan os.Signal, 16)
	signal.Notify(received, passed...)
	go func() {
		for sig := range received {
			s.signal(sig.(syscall.Signal))
		}
	}()
}

// closeInherited closes what the init has inherited by design and does not need any more: its
// executable and the command's stdio. It uses their numbers, not a range: the Go runtime has fds of
// its own, such as its network poller's, and dies without.
func closeInherited(control int) {
	if number, ok := strings.CutPrefix(os.Args[0], "/proc/self/fd/"); ok {
		if fd, ok := parseFD(number); ok {
			unix.Close(fd)
		}
	}
	for fd := control + 1; fd <= control+3; fd++ {
		unix.Close(fd)
	}
}

// controlSocket is the init's end, used with plain system calls: the runtime's poller would cost an
// epoll instance, two more fds and a wake-up each time.
type controlSocket int

func (c controlSocket) Read(p []byte) (int, error) {
	from := frame.Receiver{Socket: int(c)}
	return from.Read(p)
}

// send ignores failure: the engine is gone then, which the reader sees.
func (c controlSocket) send(message []byte) {
	for len(message) > 0 {
		n, err := unix.SendmsgN(int(c), message, nil, nil, unix.MSG_NOSIGNAL)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return
		}
		message = message[n:]
	}
}
