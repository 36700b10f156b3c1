package cmdengine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/events"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/shared"
)

type sandbox struct {
	engine     *engine
	spec       shared.Spec
	credential *syscall.Credential
	init       sandboxinit.Binary
	filter     []byte
	attached   Attachment
	detach     func() // called once
	limits     cgroup.Decision
	holdings   []holding
	session    *persistentSession // nil if commands share no processes

	// open ends with the sandbox. All that starts or runs in it watches it.
	open  context.Context
	close context.CancelFunc

	mu    sync.Mutex     // for spare, the end of open, and alive, which grows only before that end
	alive sync.WaitGroup // commands that start or run, and the making of a spare
	spare *spare
}

func newSandbox(e *engine, spec shared.Spec, credential *syscall.Credential) *sandbox {
	s := &sandbox{engine: e, spec: spec, credential: credential}
	s.open, s.close = context.WithCancel(context.Background())
	s.detach = sync.OnceFunc(func() {
		if s.session != nil {
			s.engine.leave(s.session)
		}
		s.attached.Close()
	})
	return s
}

func errClosed() error {
	return &shared.Error{Kind: shared.ErrClosed, Message: "the sandbox is closed"}
}

// decideLimits finds what enforces the limits, for an engine that leaves them to this package.
func (s *sandbox) decideLimits() error {
	l, c := s.spec.Limits, &s.engine.config
	if !c.HoldLimits || !c.Init || l.Memory == 0 && l.CPUs == 0 && l.PIDs == 0 {
		return nil
	}
	s.limits = s.engine.limitHost().Decide(cgroup.Limits{Memory: l.Memory, CPUs: l.CPUs, PIDs: l.PIDs})
	uid := uint32(os.Geteuid())
	if s.spec.User != nil {
		uid = s.spec.User.UID
	}
	s.holdings = holdings(l, s.limits, uid)
	return admitLimits(l, s.holdings)
}

// findInit finds the init and its filters, if the engine has one.
func (s *sandbox) findInit() (err error) {
	c := &s.engine.config
	if !c.Init {
		return nil
	}
	if s.init, err = sandboxinit.Locate(); err != nil {
		return unavailable(err.Error())
	}
	if c.Filter != nil {
		s.filter, err = c.Filter(&s.spec)
	}
	return err
}

// enter counts one more command, unless the sandbox is closed.
func (s *sandbox) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil {
		return false
	}
	s.alive.Add(1)
	return true
}

func (s *sandbox) Close(ctx context.Context) error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		s.alive.Wait()
		s.spare.discard()
		s.detach()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		// They are still being killed.
		return ctx.Err()
	}
}

func (s *sandbox) Start(ctx context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	if !s.enter() {
		return nil, errClosed()
	}
	p, err := s.start(ctx, &cmd, stdio)
	if err != nil {
		s.alive.Done()
		return nil, err
	}
	go p.supervise(cmd.Timeout, cmd.Grace, s.open.Done(), func() {
		runtime.Gosched() // the report of the end first
		s.makeSpare()     // not earlier: it would take processor time from the command
		p.run.finish()
		s.alive.Done()
	})
	return p, nil
}

func (s *sandbox) start(ctx context.Context, cmd *shared.Command, stdio shared.Stdio) (*process, error) {
	if err := s.check(cmd); err != nil {
		return nil, err
	}
	if err := stdio.Validate(); err != nil {
		return nil, err
	}
	files, null, err := stdioFiles(cmd, stdio)
	if err != nil {
		return nil, err
	}
	defer null.Close()

	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.open, cancel)()

	queue := events.NewQueue(eventBuffer)
	begin := s.startDirect
	if s.engine.config.Init {
		begin = s.startInside
	}
	err = ctx.Err()
	var r runningCommand
	var notes []shared.Event
	if err == nil {
		r, notes, err = begin(ctx, cmd, files, queue.Send)
	}
	if err == nil && ctx.Err() != nil {
		r.Kill()
		r.Wait()
		r.finish()
		err = ctx.Err()
	}
	if err != nil {
		switch {
		case caller.Err() != nil:
			return nil, caller.Err()
		case s.open.Err() != nil:
			return nil, errClosed()
		}
		return nil, err
	}
	p := &process{run: r, events: queue, begun: time.Now(), done: make(chan struct{})}
	for _, h := range s.holdings {
		notes = append(notes, h.event())
	}
	for _, e := range append(notes, s.attached.Events()...) {
		p.events.Send(e)
	}
	return p, nil
}

// startDirect starts a command, or a launcher that becomes the command.
func (s *sandbox) startDirect(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (_ runningCommand, _ []shared.Event, err error) {
	resolved, script, err := withoutScript(*cmd)
	if err != nil {
		return nil, nil, err
	}
	defer script.Close()
	c, err := s.command(&resolved)
	if err != nil {
		return nil, nil, err
	}
	defer frame.CloseFiles(c.ExtraFiles)
	if c.Begun != nil {
		c.Begun(emit)
	}
	defer func() {
		if err != nil && c.Ended != nil {
			c.Ended()
		}
	}()
	if c.Err != nil {
		return nil, nil, unavailable(c.Err.Error())
	}
	extra, err := withScript(c.ExtraFiles, script)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDir(c.Dir); err != nil {
		return nil, nil, err
	}
	dir := c.Dir
	if s.spec.Unconfined && dir != "" {
		held, path, errno := holdDir(dir)
		if errno != 0 {
			return nil, nil, execError(&sandboxinit.ExecError{Op: sandboxinit.OpChdir, Path: dir, Errno: errno}, whereDirect)
		}
		defer held.Close()
		dir = path
	}
	path, file := c.Path, c.Path
	if path == "" {
		if file, err = LookPath(c.Args[0], dir, c.Env); err != nil {
			return nil, nil, err
		}
		path = file
		if dir != c.Dir && strings.Contains(c.Args[0], "/") {
			path = c.Args[0] // relative to dir, which has no name for a script
		}
	}

	attr := sysProcAttr(c.SysProcAttr, s.credential, false)
	attr.Setctty, attr.Ctty = cmd.TTY, 0
	givePipes(stdio[:], s.credential)
	process, err := startProcess(path, c.Args, &os.ProcAttr{
		Dir:   dir,
		Env:   append([]string{}, c.Env...), // nil would mean the engine's own
		Files: append(stdio[:], extra...),
		Sys:   attr,
	})
	if err != nil {
		if c.Path != "" {
			return nil, nil, launchError(path, s.credential, err)
		}
		return nil, nil, directError(file, s.credential, err)
	}
	return &directRun{process: process, ended: c.Ended}, nil, nil
}

// check refuses a command that the engine cannot run.
func (s *sandbox) check(cmd *shared.Command) error {
	if err := cmd.Validate(); err != nil {
		return err
	}
	info := &s.engine.config.Info
	refused := func(attribute, message, hint string) error {
		return &shared.Error{Kind: shared.ErrUnsupported, Attribute: attribute, Message: message, Hint: hint}
	}
	switch {
	case cmd.TTY && !info.Features.Has(shared.FeatureTTY):
		return refused("tty", fmt.Sprintf("engine %q takes no terminal", info.Name), "run the command without one")
	case cmd.Trace && s.session != nil:
		return refused("trace", "the engine does not trace a command of a session with processes", "run it in a sandbox of its own")
	case cmd.Trace && !info.Features.Has(shared.FeatureTrace):
		return refused("trace", fmt.Sprintf("engine %q traces no commands", info.Name), "run the command without a trace")
	}
	return nil
}

// stdioFiles fills in the null device, which the caller closes.
func stdioFiles(cmd *shared.Command, stdio shared.Stdio) (files [3]*os.File, null *os.File, err error) {
	files = [3]*os.File{stdio.Stdin, stdio.Stdout, stdio.Stderr}
	if cmd.TTY && !frame.IsTerminal(stdio.Stdin) {
		return files, nil, invalid("stdin", "", "is not a terminal, but the command is to have one")
	}
	for i, f := range files {
		if f != nil {
			continue
		}
		if null == nil {
			if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return files, nil, unavailable(err.Error())
			}
		}
		files[i] = null
	}
	return files, null, nil
}
