package sandboxinit

import (
	"runtime"
	"syscall"

	"github.com/sbxhost/sbxhost/shared/frame"
	"github.com/sbxhost/sbxhost/shared/sandboxinit/trace"
	"github.com/sbxhost/sbxhost/shared/traced"
)

// A command is traced by its parent, a process between the init and it. What it makes the
// tracer do ends that one alone, and by it the command, never the init. The kernel's waits
// of the two have nothing in common.

// tracerProcess is what the init knows of it.
type tracerProcess struct {
	pid  int
	line controlSocket
	// heard is closed when the tracer has said its last word: last and report are final.
	heard  chan struct{}
	last   *Status // nil if it said none
	report []byte  // a kindTraced message
}

// beginTraced starts the command as the child of a tracer.
func (s *supervisor) beginTraced(cmd *Command, control int) (child, *ExecError) {
	if cmd.Crowded {
		makeThreads(spareThreads)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return child{}, execError(OpFork, "", err)
	}
	line := controlSocket(pair[0])
	// As the init itself is started: the line, and the command's stdio behind it.
	files := []uintptr{0, 1, 2, uintptr(pair[1]), uintptr(control + 1), uintptr(control + 2), uintptr(control + 3)}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{initArg, traceArg, "3"},
		&syscall.ProcAttr{Env: []string{"GOMAXPROCS=1"}, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}})
	syscall.Close(pair[1])
	if err != nil {
		syscall.Close(pair[0])
		return child{}, execError(OpFork, "", err)
	}
	request, err := encodeCommand(cmd)
	if err != nil {
		return child{}, execError(OpFork, "", syscall.E2BIG)
	}
	line.send(request)
	k, payload, err := frame.Read(line, maxReport)
	var begun started
	var refused ExecError
	switch {
	case err == nil && k == kindStarted && frame.Decode(payload, &begun) == nil:
	case err == nil && k == kindRefused && frame.Decode(payload, &refused) == nil:
		return child{}, &refused
	default: // it has died
		return child{}, &ExecError{OpTrace, "", syscall.ECHILD}
	}
	s.tracer = &tracerProcess{pid: pid, line: line, heard: make(chan struct{})}
	go s.tracer.hear()
	return child{pid: begun.pid, scoped: begun.scoped}, nil
}

// hear takes what the tracer says at the end of the command.
func (t *tracerProcess) hear() {
	defer close(t.heard)
	k, payload, err := frame.Read(t.line, traced.MaxReport)
	if err != nil || k != kindTraced {
		return
	}
	var report traced.Report
	if frame.Decode(payload, &report) != nil {
		return
	}
	t.report = frame.Encode(kindTraced, &report, len(payload))
	var last Status
	if receive(t.line, kindStatus, maxReport, &last) == nil {
		t.last = &last
	}
}

// status is the command's, once the tracer is gone. With a tracer that has said none, the
// kernel has killed the command.
func (t *tracerProcess) status() Status {
	<-t.heard
	if t.last == nil {
		return Status{Code: -1, Signal: int(syscall.SIGKILL)}
	}
	return *t.last
}

// runTracer is the whole life of the tracer.
func runTracer(control int) int {
	if code := closeEyes(); code != 0 {
		return code
	}
	line := controlSocket(control)
	cmd := &Command{}
	if receive(line, kindCommand, maxCommand, cmd) != nil || cmd.validate() != nil {
		return 1
	}
	// The command shall not signal who traces it, where the kernel can keep it from that.
	scope := cmd.Scope
	cmd.Scope = true
	forked := func() {}
	if cmd.Crowded {
		forked = offerChildren()
	}
	runtime.LockOSThread() // which is the tracer for the kernel
	var t trace.Tracer
	c, refused := seized(&t, cmd, control)
	forked()
	if refused != nil {
		line.send(encodeRefused(refused))
		return 1
	}
	running := false
	begun := func() {
		running = true
		syscall.Close(int(c.stage.line))
		line.send(frame.Encode(kindStarted, &started{scope && c.scoped, c.pid}, 5))
		closeInherited(control)
	}
	ws, err := t.Follow(c.pid, begun)
	status := Status{Code: -1, Signal: int(syscall.SIGKILL)}
	if err == nil {
		status = statusOf(ws)
	}
	if !running {
		if refused := limitOutcome(c.stage.line); refused != nil {
			line.send(encodeRefused(refused))
			return 1
		}
		begun() // it has died of its limits
	}
	line.send(frame.Encode(kindTraced, &traced.Report{Calls: t.Calls()}, 4096))
	line.send(frame.Encode(kindStatus, &status, 11))
	return 0
}

// seized forks the command, and seizes the thread that will execute it.
func seized(t *trace.Tracer, cmd *Command, control int) (child, *ExecError) {
	c, refused := start(cmd, control)
	if refused != nil {
		return c, refused
	}
	c.stage.line.send(c.stage.request)
	var w waiting
	if receive(c.stage.line, kindWaiting, 4, &w) != nil {
		c.stage.end()
		return c, &ExecError{OpFork, "", syscall.ECHILD}
	}
	if err := t.Seize(w.thread); err != nil {
		c.stage.end()
		return c, execError(OpTrace, "", err)
	}
	c.stage.line.send(frame.Encode(kindSeized, nothing{}, 0))
	return c, nil
}
