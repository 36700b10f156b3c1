package sandboxinit

import (
	"context"
	"errors"
	"runtime"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/trace"
	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/internal/frame"
)

// The tracer of a command is its parent, a process between the init and it. What the command makes
// it do can end only the tracer, and with it the command, never the init. The kernel's waits of the
// two are separate.

// tracerProcess is the init's view of the tracer: the init acts as the engine, and the tracer as
// the init of the command.
type tracerProcess struct {
	pid  int
	conn *Conn
}

// beginTraced starts the command as the child of a tracer.
func (s *supervisor) beginTraced(cmd *Command) (none child, _ *ExecError) {
	ours, theirs, err := Pair()
	if err != nil {
		return none, execError(OpFork, "", err)
	}
	// As the init itself is started: the control socket, and then the command's stdio.
	stdio := uintptr(s.control) + 1
	files := []uintptr{0, 1, 2, theirs.Fd(), stdio, stdio + 1, stdio + 2}
	sys := &syscall.SysProcAttr{Setsid: true}
	if cmd.Locked { // the tracer makes the namespaces
		sys.AmbientCaps = lockingCaps()
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{initRole, traceRole, "3"},
		&syscall.ProcAttr{Env: []string{"GOMAXPROCS=1"}, Files: files, Sys: sys})
	theirs.Close()
	conn := NewConn(ours)
	if err == nil && cmd.Locked {
		err = dropLocking()
	}
	if err != nil {
		conn.Close()
		return none, execError(OpFork, "", err)
	}
	if err := conn.Start(context.Background(), *cmd); err != nil {
		if refused, ok := errors.AsType[*ExecError](err); ok {
			return none, refused
		}
		return none, &ExecError{OpTrace, "", syscall.ECHILD} // it has died
	}
	s.tracer = &tracerProcess{pid, conn}
	return child{startedMessage: conn.is}, nil
}

// status is the command's, after the tracer's end. If the tracer reported none, the kernel has
// killed the command.
func (t *tracerProcess) status() Status {
	status, err := t.conn.Wait()
	if err != nil {
		return killed
	}
	return status
}

// runTracer is the life of the tracer.
func runTracer(control int) int {
	engine := controlSocket(control)
	cmd := &Command{}
	if frame.Expect(engine, kindCommand, maxCommand, cmd) != nil || cmd.validate() != nil {
		return 1
	}
	// The command must not signal its tracer, if the kernel can prevent that.
	scope := cmd.Scope
	cmd.Scope = true
	forked := func() {}
	if cmd.SharedLimits {
		forked = offerChildren()
	}
	runtime.LockOSThread() // the tracer for the kernel
	var t trace.Tracer
	c, refused := forkSeized(&t, cmd, control)
	forked()
	if refused != nil {
		engine.send(encodeRefused(refused))
		return 1
	}
	running := false
	begun := func() {
		running = true
		c.scoped = c.scoped && scope
		engine.send(frame.Encode(kindStarted, &c.startedMessage))
		closeInherited(control)
	}
	ws, err := t.Follow(c.pid, begun)
	status := killed
	if err == nil {
		status = statusOf(ws)
	}
	if !running {
		if refused := c.forkedCommand.outcome(); refused != nil {
			engine.send(encodeRefused(refused))
			return 1
		}
		begun() // it has died of its limits
	}
	engine.send(frame.Encode(kindEnded, &endedMessage{status: status, failed: traced.Report{Calls: t.Calls()}}))
	return 0
}

// forkSeized forks the command, and seizes it before it executes its program.
func forkSeized(t *trace.Tracer, cmd *Command, control int) (child, *ExecError) {
	c, refused := start(cmd, control, nil)
	if refused != nil {
		return c, refused
	}
	if err := t.Seize(c.pid); err != nil {
		c.forkedCommand.end()
		return c, execError(OpTrace, "", err)
	}
	c.forkedCommand.proceed()
	return c, nil
}
