package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// A rule is one demand of package shared.
type rule struct {
	id, title string
	// features are needed; without them the rule says nothing of the engine.
	features []shared.Feature
	// isolating says that it holds for engines that isolate alone.
	isolating bool
	// process says that it needs an engine in a process of its own.
	process bool
	// alone says that it measures this process, which nothing else may use then.
	alone bool
	run   func(ctx context.Context, b *bench) error
}

const (
	// ruleTimeout bounds one rule unless the options say otherwise.
	ruleTimeout = 2 * time.Minute
	// interruptPatience is how long a rule may take to end when the run is.
	interruptPatience = 3 * time.Second
)

// contractRules are all rules.
func contractRules() []rule {
	var list []rule
	for _, part := range [][]rule{openRules(), endRules(), streamRules(), commandRules(), misuseRules(), crowdRules(), processRules()} {
		list = append(list, part...)
	}
	return list
}

// runRule tries a rule.
func (s *Suite) runRule(ctx context.Context, r *rule) (status Status, detail string) {
	switch {
	case r.isolating && s.unconfined:
		return NotApplicable, "the engine does not isolate"
	case r.process && s.options.Launch == nil:
		return NotApplicable, "the engine runs in this process"
	}
	if lacking := missing(s.info.Features, r.features); lacking != "" {
		return Skipped, "the engine does not claim " + lacking
	}
	sc, err := s.newScene(&probe{id: r.id, anyView: true, anyNetwork: true}, r.id)
	b := &bench{suite: s, scene: sc, engine: s.engine}
	defer func() {
		b.close()
		if err := sc.close(); err != nil && status == Held {
			status, detail = Failed, "cleaning up: "+err.Error()
		}
	}()
	if err != nil {
		return Failed, err.Error()
	}
	given := ctx
	ctx, cancel := context.WithTimeout(ctx, s.options.RuleTimeout)
	defer cancel()
	// A goroutine, so that an engine which ignores contexts cannot hang the kit.
	done := make(chan error, 1)
	go func() { done <- r.run(ctx, b) }()
	limit := time.After(s.options.RuleTimeout + b.patience())
	select {
	case err = <-done:
	case <-limit:
		err = errors.New("it does not end")
	case <-given.Done():
		select {
		case err = <-done:
		case <-time.After(interruptPatience):
			err = given.Err()
		}
	}
	if absent, ok := errors.AsType[*absentError](err); ok {
		return NotApplicable, absent.why
	}
	if err != nil {
		return Failed, err.Error()
	}
	return Held, ""
}

// A bench is what a rule is tried with.
type bench struct {
	suite    *Suite
	scene    *scene
	engine   shared.Engine
	mu       sync.Mutex // a rule that does not end may go on while its bench is closed
	cleanups []func()
}

func (b *bench) close() {
	b.mu.Lock()
	cleanups := b.cleanups
	b.cleanups = nil
	b.mu.Unlock()
	for i := len(cleanups) - 1; i >= 0; i-- {
		cleanups[i]()
	}
}

// patience is how long one step of a rule may take.
func (b *bench) patience() time.Duration { return min(actionTimeout, b.suite.options.RuleTimeout/3) }

// many is how many commands a rule starts.
func (b *bench) many(n, brief int) int {
	if b.suite.options.Brief {
		return brief
	}
	return n
}

func (b *bench) later(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

// spec is the sandbox that every rule starts from.
func (b *bench) spec() shared.Spec { return b.scene.newTrial().Spec }

// command runs an action.
func (b *bench) command(action string, args ...string) shared.Command {
	t := b.scene.newTrial()
	t.do(action, args...)
	cmd := t.Command
	cmd.Args, cmd.Env = b.scene.commandLine(t)
	return cmd
}

// sh runs shell text, by argv.
func (b *bench) sh(text string, args ...string) shared.Command {
	cmd := b.scene.newTrial().Command
	cmd.Args = append([]string{"/bin/sh", "-c", text, "sh"}, args...)
	return cmd
}

// open opens the usual sandbox, which is closed at the end.
func (b *bench) open(ctx context.Context) (shared.Sandbox, error) {
	sandbox, err := b.engine.Open(ctx, b.spec())
	if err != nil {
		return nil, fmt.Errorf("opening: %w", err)
	}
	b.later(func() { sandbox.Close(context.WithoutCancel(ctx)) })
	return sandbox, nil
}

// pipe gives a pair that is closed at the end.
func (b *bench) pipe() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err == nil {
		b.later(func() { r.Close(); w.Close() })
	}
	return r, w, err
}

// ran is a command's end.
type ran struct {
	shared.Result
	stdout, stderr string
}

// run runs a command in a sandbox to its end.
func (b *bench) run(ctx context.Context, sandbox shared.Sandbox, cmd shared.Command, stdin *os.File) (ran, error) {
	var r ran
	outR, outW, err := os.Pipe()
	if err != nil {
		return r, err
	}
	defer outR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		outW.Close()
		return r, err
	}
	defer errR.Close()
	process, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdin: stdin, Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	if err != nil {
		return r, fmt.Errorf("starting: %w", err)
	}
	stdout, stderr := collect(outR), collect(errR)
	if r.Result, err = process.Wait(ctx); err != nil {
		return r, fmt.Errorf("waiting: %w", err)
	}
	limit := time.Now().Add(b.patience())
	outR.SetReadDeadline(limit)
	errR.SetReadDeadline(limit)
	out, late := stdout()
	if late {
		return r, errors.New("stdout stayed open after the end")
	}
	text, _ := stderr()
	r.stdout, r.stderr = string(out), string(text)
	return r, nil
}

// once opens a sandbox and runs a command in it.
func (b *bench) once(ctx context.Context, cmd shared.Command, stdin *os.File) (ran, error) {
	sandbox, err := b.open(ctx)
	if err != nil {
		return ran{}, err
	}
	return b.run(ctx, sandbox, cmd, stdin)
}

// exits says whether a command ended as it should.
func (r ran) exits(want shared.ExitStatus) error {
	if r.Status != want {
		return fmt.Errorf("it ended with %v and not with %v; stdout: %s stderr: %s", r.Status, want, tail([]byte(r.stdout)), tail([]byte(r.stderr)))
	}
	return nil
}

// wantKind says whether an error is of one of the kinds.
func wantKind(what string, err error, kinds ...error) error {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return nil
		}
	}
	return fmt.Errorf("%s: got %v, want %v", what, err, kinds)
}

// feed writes text to a command's input and closes it.
func feed(w *os.File, text io.Reader) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, text)
		done <- errors.Join(err, w.Close())
	}()
	return done
}
