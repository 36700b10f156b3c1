package sandboxinit

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// supervisor is the init of one command.
type supervisor struct {
	control controlSocket
	pidOne  bool
	apart   bool // see Command.Apart
	// group is the command's process group once it runs, else 0.
	group atomic.Int32
	// ending says that whatever is still there is to be killed.
	ending atomic.Bool
	// doomed says that it is to be once the command has ended.
	doomed atomic.Bool
	fresh  fresh
	// from is the thread that starts the command, where its confinement was told before it.
	from *confined
	// resets is a socket of that kind, see makeSockets, or negative.
	resets int
	// tracer is the parent of a command that is traced; nil of others, whose is the init.
	tracer *tracerProcess

	reporting sync.Mutex
	reported  bool
}

// role gives the whole life of a process that is what argv[1] says, with the descriptors that
// follow. Its result is the exit status.
func role(is string, fds []int) func() int {
	switch control := fds[0]; {
	case is == initArg && len(fds) == 1:
		return func() int { return runServing(control, -1) }
	case is == initArg && len(fds) == 2: // see ServingArgv
		return func() int { return runServing(control, fds[1]) }
	case is == initArg && len(fds) == 3: // see MakingArgv
		return func() int { return runMaking(control, [2]int(fds[1:]), nil) }
	case is == waitArg && len(fds) == 1:
		return func() int { return runWaiting(control, -1) }
	case is == waitArg && len(fds) == 2: // see dropByExec
		return func() int { return runWaiting(control, fds[1]) }
	case len(fds) > 1:
	case is == AloneArg:
		return runAlone
	case is == traceArg:
		return func() int { return runTracer(control) }
	}
	return nil
}

// runServing is the init of a command, whose stdio follows its control socket. It makes sockets for
// whom it meets on the line sockets, which is negative for none.
func runServing(control, sockets int) int {
	if code := closeEyes(); code != 0 {
		return code
	}
	return newSupervisor().run(control, sockets)
}

// runAlone is an init that makes its sandbox and the tree, and has started before either was known.
func runAlone() int {
	if code := closeEyes(); code != 0 {
		return code
	}
	// Of what this process executes nothing may gain a capability. A holder's thread would have emptied the
	// bounding set for that; here each thread has one, and to empty them all takes 2 ms.
	err := onEachThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	runtime.LockOSThread() // which dropByExec takes with it
	if err == syscall.ENOTSUP {
		err = confine.NoNewPrivileges()
	}
	if err != nil {
		return proc.Complain("prctl PR_SET_NO_NEW_PRIVS", err)
	}
	alone, words := holder.Settle()
	if len(words) != 5 {
		return proc.Failed // who has started it has ended, or needs none
	}
	os.Args = words // as of MakingArgv
	var fds [3]int
	for i := range fds {
		fds[i], _ = parseFD(words[2+i])
	}
	return runMaking(fds[0], [2]int(fds[1:]), alone)
}

// onEachThread makes a system call on each thread. The error is ENOTSUP in a program with C in it.
//
//go:uintptrescapes
func onEachThread(call, a, b uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, 0); errno != 0 {
		return errno
	}
	return nil
}

// runMaking is an init that makes its sandbox itself, and the tree, too, where it is alone.
func runMaking(control int, others [2]int, alone *holder.Solitude) int {
	if code := closeEyes(); code != 0 {
		return code
	}
	socket := controlSocket(control)
	var box holder.Sandbox
	if err := receive(socket, kindSandbox, maxCommand, &box); err == io.EOF {
		return proc.Failed // the engine has died or given up
	} else if err != nil {
		return proc.Complain("reading what is to be made", err)
	}
	making, failed := holder.Make(box, others, []int{0, 1, 2}, alone)
	unix.Close(others[0])
	unix.Close(others[1])
	if failed != nil {
		socket.send(frame.Encode(kindUnmade, failed, 256))
		return proc.Failed
	}
	if failed = making.Complete(); failed == nil {
		kept := 0 // until its command's namespaces are there
		for _, c := range holder.LockingCaps {
			kept |= 1 << c
		}
		err := dropCapabilities(kept, control, making.Resets)
		if err == nil {
			return await(control, making.Resets)
		}
		failed = &holder.MountError{Index: -1, Call: "dropping capabilities", Reason: err.Error(), Errno: errnoOf(err)}
	}
	socket.send(frame.Encode(kindUnmade, failed, 256))
	return proc.Failed
}

// runWaiting is an init that is given the command's stdio later.
func runWaiting(control, resets int) int {
	if code := closeEyes(); code != 0 {
		return code
	}
	return await(control, resets)
}

// await is the init once the command's stdio is there, which can be long: what the command would
// have to wait for is done before. A signal that comes meanwhile is nobody's.
func await(control, resets int) int {
	s := newSupervisor()
	s.resets = resets
	row, sockets, err := s.receiveCompletion(controlSocket(control))
	if refused, ok := err.(*ExecError); ok {
		controlSocket(control).send(encodeRefused(refused))
		return refusedCode(refused)
	}
	if err == io.EOF {
		return proc.Failed
	}
	if err != nil {
		return proc.Complain("reading the command's stdio", err)
	}
	return s.run(row, sockets)
}

// receiveCompletion awaits a kindComplete, and gives a new number of the control socket, behind which the command's stdio is. sockets is the line of a [Sockets], negative
// for none. What the command is kept from can come before that.
func (s *supervisor) receiveCompletion(socket controlSocket) (row, sockets int, err error) {
	from := frame.Receiver{Socket: int(socket)}
	defer func() { frame.CloseAll(from.Files) }()
	kind, payload, err := frame.Read(&from, maxCommand)
	if err == nil && kind == kindConfine {
		var by Confinement
		if err = frame.Decode(payload, &by); err == nil {
			err = by.validate()
		}
		if err != nil {
			return 0, -1, err
		}
		var refused *ExecError
		if s.from, refused = confineThread(&by, false); refused != nil {
			return 0, -1, refused
		}
		kind, payload, err = frame.Read(&from, maxRequest)
	}
	if err == nil && kind != kindComplete {
		err = frame.Malformed("out of turn")
	}
	if err == nil {
		err = frame.Decode(payload, nothing{})
	}
	if err != nil {
		return 0, -1, err
	}
	if len(from.Files) != 3 && len(from.Files) != 4 {
		return 0, -1, frame.Malformed("without the command's stdio")
	}
	if row, err = proc.InARow(append([]int{int(socket)}, from.Files...)); err == nil {
		unix.Close(int(socket))
	}
	if sockets = -1; len(from.Files) == 4 {
		sockets = row + 4
	}
	return row, sockets, err
}

// closeEyes keeps the command, which has the init's uid, from the init, and from what the
// launcher leaked.
func closeEyes() int {
	if err := proc.Hide(); err != nil {
		return proc.Complain("hiding", err)
	}
	proc.SetName("sbxhost-init")
	if err := proc.CloseOnExecFrom(3); err != nil {
		return proc.Complain("setting fds close-on-exec", err)
	}
	return 0
}

// dropCapabilities takes all capabilities but those of a mask from every thread. What can be gained by
// executing something is nothing since the holder emptied the bounding set; see runAlone, too.
func dropCapabilities(kept, control, resets int) error {
	err := capsetAll(kept)
	if err == syscall.ENOTSUP {
		// In a program with C in it. What is executed has no others, and no other thread.
		return dropByExec(kept, control, resets)
	}
	return err
}

func capsetAll(kept int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	have := [2]unix.CapUserData{{Effective: uint32(kept), Permitted: uint32(kept), Inheritable: uint32(kept)}} // a tracer inherits them
	return onEachThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&have[0])))
}

// dropLocking gives up what a command's namespaces are made with. In a program with C in it the init keeps it.
func dropLocking() error {
	if err := capsetAll(0); err != syscall.ENOTSUP {
		return err
	}
	return nil
}

func dropByExec(kept, control, resets int) error {
	runtime.LockOSThread()
	if err := proc.SetCapabilities(uint32(kept), uint32(kept), uint32(kept)); err != nil {
		return err
	}
	// Not os.Args[0]: the descriptor in it is closed then, and its number may be the runtime's.
	const self = "/proc/self/exe"
	words := []string{self, waitArg}
	for _, fd := range [...]int{control, resets} {
		if fd < 0 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
		words = append(words, strconv.Itoa(fd))
	}
	return syscall.Exec(self, words, []string{"GOMAXPROCS=1"})
}

// newSupervisor takes signals as the init of a command does.
func newSupervisor() *supervisor {
	s := &supervisor{pidOne: os.Getpid() == 1, resets: -1}
	if s.pidOne {
		proc.IgnoreSignals()
	} else {
		s.passSignals()
	}
	return s
}

// run starts the command and sees it to its end.
func (s *supervisor) run(control, sockets int) int {
	s.control = controlSocket(control)
	if !s.pidOne {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return proc.Complain("prctl PR_SET_CHILD_SUBREAPER", err)
		}
	}
	if sockets >= 0 {
		go makeSockets(sockets, s.resets)
	}
	cmd := &Command{}
	kind, payload, err := frame.Read(s.control, maxCommand)
	switch {
	case err == io.EOF:
		return proc.Failed // the engine has died or given up
	case err != nil:
	case kind == kindReside && s.pidOne:
		return s.reside(control)
	case kind != kindCommand:
		err = frame.Malformed("out of turn")
	default:
		if err = frame.Decode(payload, cmd); err == nil {
			err = cmd.validate()
		}
		if err == nil && cmd.Confined != (s.from != nil) {
			err = frame.Malformed("a command with another confinement")
		}
	}
	if err != nil {
		return proc.Complain("reading the command", err)
	}

	s.apart = cmd.Apart && !s.pidOne
	s.fresh = freshAt(cmd.Fresh)
	if cmd.Crowded {
		makeThreads(spareThreads)
	}
	begin := s.begin
	if len(cmd.Trace) > 0 {
		begin = s.beginTraced
	}
	child, refused := begin(cmd, control)
	if refused != nil {
		s.control.send(encodeRefused(refused))
		return refusedCode(refused)
	}
	s.group.Store(int32(child.pid))
	s.control.send(frame.Encode(kindStarted, &started{scoped: child.scoped, rooted: child.rooted}, 6))
	// The engine's readers see the end of the command's output when the command
	// closes it, not when the init ends.
	closeInherited(control)

	go s.serveRequests()
	if s.tracer != nil {
		return s.reap(s.tracer.pid)
	}
	return s.reap(child.pid)
}

// reside is the life of an init that is pid 1 for the commands of other inits.
func (s *supervisor) reside(control int) int {
	if err := dropLocking(); err != nil { // it starts no command
		return proc.Complain("dropping capabilities", err)
	}
	signal.Ignore(syscall.SIGCHLD) // the kernel reaps
	closeInherited(control)
	s.control.send(frame.Encode(kindStarted, &started{}, 6))
	s.serveRequests() // which ends this process, and with it all others
	return proc.Failed
}

// begin starts the command as the init's own child.
func (s *supervisor) begin(cmd *Command, control int) (child, *ExecError) {
	if cmd.Crowded {
		defer offerChildren()()
	}
	return start(cmd, control, s.from)
}

// refusedCode is what a shell would exit with.
func refusedCode(x *ExecError) int {
	switch {
	case x.NotFound():
		return 127
	case x.NotExecutable():
		return 126
	}
	return proc.Failed
}

// reap collects every child, orphans that were reparented here among them. As
// pid 1 it ends when the command does, otherwise when no child is left.
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
				killChildren() // which have just got new siblings, perhaps
			}
			continue
		}
		status := statusOf(ws)
		if s.tracer != nil {
			status = s.tracer.status()
		}
		code = status.ExitCode()
		status.Alone = childless()
		stays := s.apart && !s.ending.Load() && !s.doomed.Load() // what it has left is the session's
		if !status.Alone && !stays && status.Signal == 0 {
			status.Ended = running(os.Getpid())
		}
		s.report(status, usedByChildren())
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

// usedByChildren is what the kernel has counted of those that were waited for.
func usedByChildren() *Used {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return nil
	}
	return &Used{CPU: uint64(u.Utime.Nano() + u.Stime.Nano()), Memory: uint64(u.Maxrss) << 10}
}

// report tells the engine how the command ended, once, and what it has used, if that is known.
func (s *supervisor) report(status Status, used *Used) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	if !s.reported {
		s.reported = true
		status.Left = s.fresh.left()
		var said []byte // at once: each message would wake the engine
		if s.tracer != nil {
			if calls := s.tracer.conn.Traced(); len(calls) > 0 {
				said = frame.Encode(kindTraced, &traced.Report{Calls: calls}, 4096)
			}
		}
		if used != nil {
			said = append(said, frame.Encode(kindUsed, used, 16)...)
		}
		s.control.send(append(said, frame.Encode(kindStatus, &status, 12)...))
	}
}

// end leaves nothing of the command behind. When pid 1 exits, the kernel sees
// to that; otherwise this begins what reap completes.
func (s *supervisor) end(code int) {
	if s.pidOne {
		proc.Exit(code)
	}
	s.ending.Store(true)
	s.signal(syscall.SIGKILL)
	killChildren()
}

// serveRequests obeys the engine until it is gone or makes no sense.
func (s *supervisor) serveRequests() {
	for {
		k, payload, err := frame.Read(s.control, maxRequest)
		switch {
		case err == nil && k == kindSignal:
			var m signalling
			if frame.Decode(payload, &m) == nil {
				s.signal(syscall.Signal(m.number))
				continue
			}
		case err == nil && k == kindDoom:
			s.doomed.Store(true)
			continue
		case err == nil && k == kindKill:
			killed := Status{Code: -1, Signal: int(syscall.SIGKILL)}
			s.report(killed, nil)
			s.end(killed.ExitCode())
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

// passed are the signals that an init which is not pid 1 hands to the command.
// As pid 1 it takes signals from nobody: the engine asks by the control socket.
var passed = [...]syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

func (s *supervisor) passSignals() {
	received := make(chan os.Signal, 16)
	list := make([]os.Signal, len(passed))
	for i, sig := range passed {
		list[i] = sig
	}
	signal.Notify(received, list...)
	go func() {
		for sig := range received {
			s.signal(sig.(syscall.Signal))
		}
	}()
}

// killChildren is for an init that is not pid 1, but is a subreaper: the
// children of what it kills become its own before it learns of the death, so
// doing this again after each death reaches all descendants in the end.
func killChildren() {
	if childless() { // mostly: then none need be looked for in all of /proc
		return
	}
	for _, pid := range childrenOf(os.Getpid()) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// childless reports whether nothing is left, not even to be reaped, of what was started here: pid 1
// or a subreaper gets whatever lost its parent.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == syscall.ECHILD
}

// running counts the descendants of a process that run.
func running(ancestor int) (n uint64) {
	parents := map[int]int{}
	var alive []int
	for _, pid := range proc.All() {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		parents[pid], _ = strconv.Atoi(proc.StatField(string(stat), proc.StatParent))
		if state := proc.StatField(string(stat), proc.StatState); state != "" && state != "Z" && state != "X" {
			alive = append(alive, pid)
		}
	}
	for _, pid := range alive {
		for up, steps := parents[pid], 0; steps < len(parents); up, steps = parents[up], steps+1 { // numbers can be taken anew meanwhile
			if up == ancestor {
				n++
				break
			}
		}
	}
	return n
}

// childrenOf reads the parent of each process, as not every kernel has
// /proc/PID/task/TID/children.
func childrenOf(parent int) (children []int) {
	for _, pid := range proc.All() {
		if proc.Stat(pid, proc.StatParent) == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

// closeInherited closes what the init has inherited by design and needs no
// more: its executable and the command's stdio. It goes by their numbers, not
// by a range: the Go runtime has fds of its own, one for its network poller
// among them, and dies without.
func closeInherited(control int) {
	if number, ok := strings.CutPrefix(os.Args[0], "/proc/self/fd/"); ok {
		if fd, ok := parseFD(number); ok && fd > 2 {
			unix.Close(fd)
		}
	}
	for fd := control + 1; fd <= control+3; fd++ {
		unix.Close(fd)
	}
}

// controlSocket is the init's end, used with plain system calls: the runtime's
// poller would cost an epoll instance, two more fds and a wake-up each time.
type controlSocket int

func (c controlSocket) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(c), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
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
