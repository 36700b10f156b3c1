package shared_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	. "github.com/sbxhost/sbxhost/shared"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// testEngine runs plain processes of this machine. What else it does, a
// command or a Spec asks for by a name that begins with "test:".
type testEngine struct{ features Features }

func (e *testEngine) Info(context.Context) (Info, error) {
	return Info{
		Name:     "test",
		Version:  "1.2.3",
		Doc:      "runs plain processes",
		Features: append(Features{FeatureUnconfined, FeatureTTY}, e.features...),
		Options:  OptionSchema{Attributes: []OptionAttribute{{Name: "image", Type: OptionString, Required: true}}},
	}, nil
}

func (e *testEngine) Probe(context.Context) (Probe, error) {
	return Probe{Reason: "bad \xff byte", Facts: map[string]string{"k\xff": "v\xff"}}, nil
}

func (e *testEngine) Open(ctx context.Context, spec Spec) (Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	switch spec.Sandbox {
	case "test:panic":
		panic("as asked")
	case "test:error":
		var asked Error
		if err := json.Unmarshal(spec.Options, &asked); err != nil {
			return nil, err
		}
		asked.Kind = ErrUnavailable
		return nil, fmt.Errorf("while opening: %w", &asked)
	case "test:plain-error":
		return nil, errors.New("plain \xff text")
	case "test:progress":
		for i := range 3 {
			Progress(ctx, Event{Kind: EventProgress, Message: strconv.Itoa(i + 1)})
		}
	case "test:block":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &testSandbox{spec: spec, running: make(map[*testProcess]struct{})}, nil
}

type testSandbox struct {
	spec    Spec
	mu      sync.Mutex
	closed  bool
	running map[*testProcess]struct{}
}

func (s *testSandbox) Plan(_ context.Context, cmd Command) (Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Plan{}, ErrClosed
	}
	return Plan{Argv: cmd.Args, Notes: []string{s.spec.Sandbox}}, nil
}

func (s *testSandbox) Close(context.Context) error {
	s.mu.Lock()
	s.closed = true
	running := make([]*testProcess, 0, len(s.running))
	for p := range s.running {
		running = append(running, p)
	}
	s.mu.Unlock()
	for _, p := range running {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
	return nil
}

func (s *testSandbox) Start(ctx context.Context, c Command, stdio Stdio) (Process, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := stdio.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	args := c.Args
	if c.Script != "" {
		args = append([]string{"/bin/sh", "-c", c.Script, "sh"}, c.Args...)
	}
	if args[0] == "test:block" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	path, err := exec.LookPath(args[0])
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return nil, &Error{Kind: ErrNotFound, Attribute: "args[0]", Message: args[0] + ": no such command", Hint: "check PATH"}
	}
	cmd := &exec.Cmd{Path: path, Args: args, Env: c.Env, Dir: c.Dir, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if stdio.Stdin != nil {
		cmd.Stdin = stdio.Stdin
	}
	if stdio.Stdout != nil {
		cmd.Stdout = stdio.Stdout
	}
	if stdio.Stderr != nil {
		cmd.Stderr = stdio.Stderr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if err := cmd.Start(); err != nil {
		return nil, &Error{Kind: ErrNotExecutable, Message: err.Error()}
	}
	p := &testProcess{cmd: cmd, done: make(chan struct{}), events: make(chan Event, 257)}
	s.running[p] = struct{}{}
	for _, e := range c.Env {
		if count, ok := strings.CutPrefix(e, "TEST_EVENTS="); ok {
			n, _ := strconv.Atoi(count)
			for i := range n {
				if i < 256 {
					p.events <- Event{Kind: EventProgress, Time: time.Unix(1, int64(i)), Message: strconv.Itoa(i)}
				}
			}
			if n > 256 {
				p.events <- Event{Kind: EventDropped, Details: map[string]string{"count": strconv.Itoa(n - 256)}}
			}
		}
	}
	go p.wait(s, c)
	return p, nil
}

type testProcess struct {
	cmd    *exec.Cmd
	events chan Event
	done   chan struct{}
	mu     sync.Mutex
	ended  bool
	result Result
	err    error
}

func (p *testProcess) wait(s *testSandbox, c Command) {
	start := time.Now()
	var timer *time.Timer
	timedOut := false
	if c.Timeout > 0 {
		timer = time.AfterFunc(c.Timeout, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.ended {
				timedOut = true
				syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			}
		})
		defer timer.Stop()
	}
	p.cmd.Wait()
	p.mu.Lock()
	p.ended = true
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.result = Result{TimedOut: timedOut, Duration: time.Since(start)}
	if status.Signaled() {
		p.result.Status = ExitStatus{Signal: status.Signal(), CoreDumped: status.CoreDump()}
	} else {
		p.result.Status.Code = status.ExitStatus()
	}
	if c.Dir == "/" && len(c.Args) > 1 && c.Args[1] == "test:break" {
		p.result, p.err = Result{}, &Error{Kind: ErrBroken, Message: "as asked"}
	}
	p.mu.Unlock()
	s.mu.Lock()
	delete(s.running, p)
	s.mu.Unlock()
	close(p.events)
	close(p.done)
}

func (p *testProcess) Wait(ctx context.Context) (Result, error) {
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

func (p *testProcess) Signal(_ context.Context, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}

func (p *testProcess) Events() <-chan Event { return p.events }
