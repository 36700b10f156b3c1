package enginetest_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
	"golang.org/x/sys/unix"
)

// A breakage is what is wrong with an engine that is good otherwise. What is
// nil is as it should be.
type breakage struct {
	info   func(shared.Info) shared.Info
	probe  func(ctx context.Context, e shared.Engine) (shared.Probe, error)
	open   func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error)
	start  func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error)
	plan   func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error)
	close  func(ctx context.Context, s shared.Sandbox) error
	wait   func(ctx context.Context, p shared.Process) (shared.Result, error)
	signal func(ctx context.Context, p shared.Process, sig syscall.Signal) error
	events func(p shared.Process) <-chan shared.Event
}

type brokenEngine struct {
	shared.Engine
	b breakage
}

// breakEngine makes an engine that keeps the contract but for one thing.
func breakEngine(b breakage) shared.Engine { return &brokenEngine{noop.New(), b} }

func (e *brokenEngine) Info(ctx context.Context) (shared.Info, error) {
	info, err := e.Engine.Info(ctx)
	if e.b.info != nil {
		info = e.b.info(info)
	}
	return info, err
}

func (e *brokenEngine) Probe(ctx context.Context) (shared.Probe, error) {
	if e.b.probe != nil {
		return e.b.probe(ctx, e.Engine)
	}
	return e.Engine.Probe(ctx)
}

func (e *brokenEngine) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	open := e.b.open
	if open == nil {
		open = func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			return e.Open(ctx, spec)
		}
	}
	s, err := open(ctx, e.Engine, spec)
	if err != nil {
		return nil, err
	}
	return &brokenSandbox{s, e.b}, nil
}

type brokenSandbox struct {
	shared.Sandbox
	b breakage
}

func (s *brokenSandbox) Start(ctx context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	start := s.b.start
	if start == nil {
		start = startPlainly
	}
	p, err := start(ctx, s.Sandbox, cmd, stdio)
	if err != nil {
		return nil, err
	}
	return &brokenProcess{p, s.b}, nil
}

func startPlainly(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	return s.Start(ctx, cmd, stdio)
}

func (s *brokenSandbox) Plan(ctx context.Context, cmd shared.Command) (shared.Plan, error) {
	if s.b.plan != nil {
		return s.b.plan(ctx, s.Sandbox, cmd)
	}
	return s.Sandbox.Plan(ctx, cmd)
}

func (s *brokenSandbox) Close(ctx context.Context) error {
	if s.b.close != nil {
		return s.b.close(ctx, s.Sandbox)
	}
	return s.Sandbox.Close(ctx)
}

type brokenProcess struct {
	shared.Process
	b breakage
}

func (p *brokenProcess) Wait(ctx context.Context) (shared.Result, error) {
	if p.b.wait != nil {
		return p.b.wait(ctx, p.Process)
	}
	return p.Process.Wait(ctx)
}

func (p *brokenProcess) Signal(ctx context.Context, sig syscall.Signal) error {
	if p.b.signal != nil {
		return p.b.signal(ctx, p.Process, sig)
	}
	return p.Process.Signal(ctx, sig)
}

func (p *brokenProcess) Events() <-chan shared.Event {
	if p.b.events != nil {
		return p.b.events(p.Process)
	}
	return p.Process.Events()
}

// changed starts a command that was changed on the way.
func changed(change func(*shared.Command, *shared.Stdio)) breakage {
	return breakage{start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
		change(&cmd, &stdio)
		return s.Start(ctx, cmd, stdio)
	}}
}

// ended changes how a command is said to have ended.
func ended(change func(*shared.Result)) breakage {
	return breakage{wait: func(ctx context.Context, p shared.Process) (shared.Result, error) {
		r, err := p.Wait(ctx)
		change(&r)
		return r, err
	}}
}

// mistold gives another error in place of one.
func mistold(is, told error) breakage {
	tell := func(err error) error {
		if errors.Is(err, is) {
			return told
		}
		return err
	}
	return breakage{
		start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			p, err := s.Start(ctx, cmd, stdio)
			return p, tell(err)
		},
		plan: func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error) {
			plan, err := s.Plan(ctx, cmd)
			return plan, tell(err)
		},
	}
}

// opened opens a Spec that was changed on the way.
func opened(change func(*shared.Spec)) breakage {
	return breakage{open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
		change(&spec)
		return e.Open(ctx, spec)
	}}
}

// misplanned changes what a plan says.
func misplanned(change func(*shared.Plan)) breakage {
	return breakage{plan: func(ctx context.Context, s shared.Sandbox, cmd shared.Command) (shared.Plan, error) {
		plan, err := s.Plan(ctx, cmd)
		change(&plan)
		return plan, err
	}}
}

// litter leaves a file each time.
type litter struct {
	dir  string
	mu   sync.Mutex
	left []string
}

func (l *litter) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, err := os.CreateTemp(l.dir, "broken-"); err == nil {
		l.left = append(l.left, f.Name())
		f.Close()
	}
}

func (l *litter) clear() {
	for _, path := range l.left {
		os.Remove(path)
	}
}

// counted refuses what is more than a number.
type counted struct {
	mu       sync.Mutex
	n, limit int
}

func (c *counted) more() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n > c.limit {
		return errors.New("too many")
	}
	return nil
}

func duplicate(f *os.File) *os.File {
	fd, _ := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	unix.SetNonblock(fd, true) // so that Close ends a Read
	return os.NewFile(uintptr(fd), f.Name())
}
