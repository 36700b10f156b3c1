package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
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
	run   func(s *scene)
}

// ruleTimeout bounds one rule unless the options say otherwise.
const ruleTimeout = 2 * time.Minute

// contractRules are all rules.
func contractRules() []rule {
	var list []rule
	for _, part := range [][]rule{openRules(), endRules(), streamRules(), commandRules(), misuseRules(), crowdRules(), processRules(), sessionRules()} {
		list = append(list, part...)
	}
	return list
}

// runRule tries a rule.
func (s *Suite) runRule(ctx context.Context, r *rule) (Status, string) {
	switch {
	case r.isolating && s.unconfined:
		return NotApplicable, "the engine does not isolate"
	case r.process && s.options.Launch == nil:
		return NotApplicable, "the engine runs in this process"
	}
	if lacking := missing(s.info.Features, r.features); lacking != "" {
		return Skipped, notClaimed + lacking
	}
	return s.inScene(ctx, &probe{id: r.id, anyView: true, anyNetwork: true}, r.id, s.options.RuleTimeout, r.run)
}

// spec is the sandbox that every rule starts from.
func (s *scene) spec() shared.Spec { return s.newTrial().Spec }

// kit is the kit's own program with an action.
func (s *scene) kit(action string, args ...string) shared.Command {
	return s.command(s.trying(action, args...))
}

// sh runs shell text, by argv.
func (s *scene) sh(text string, args ...string) shared.Command {
	cmd := s.newTrial().Command
	cmd.Args = append([]string{"/bin/sh", "-c", text, "sh"}, args...)
	return cmd
}

// forever ends shell text that goes on.
const forever = "; while :; do sleep 0.02; done"

// open opens the usual sandbox, which is closed at the end.
func (s *scene) open() shared.Sandbox { return s.openAs(s.spec()) }

func (s *scene) openAs(spec shared.Spec) shared.Sandbox {
	sandbox, err := s.engine.Open(s.ctx, spec)
	if err != nil {
		s.failf("opening: %v", err)
	}
	s.cleanup(func() { sandbox.Close(context.WithoutCancel(s.ctx)) })
	return sandbox
}

// begin starts a command, and closes the files that it was given.
func (s *scene) begin(sandbox shared.Sandbox, cmd shared.Command, stdio shared.Stdio) shared.Process {
	p, err := sandbox.Start(s.ctx, cmd, stdio)
	for _, f := range []*os.File{stdio.Stdin, stdio.Stdout, stdio.Stderr} {
		if f != nil {
			f.Close()
		}
	}
	if err != nil {
		s.failf("starting: %v", err)
	}
	return p
}

// lines are what a command writes, each of which may take one step's time.
type lines struct {
	r        *os.File
	buffered *bufio.Reader
	patience time.Duration
}

func (s *scene) linesOf(r *os.File) *lines { return &lines{r, bufio.NewReader(r), s.patience()} }

func (l *lines) next() (string, error) {
	l.r.SetReadDeadline(time.Now().Add(l.patience))
	return l.buffered.ReadString('\n')
}

// started starts a command and waits for the first line that it writes.
func (s *scene) started(sandbox shared.Sandbox, cmd shared.Command, stdin *os.File) (shared.Process, *lines) {
	r, w := s.pipe()
	p := s.begin(sandbox, cmd, shared.Stdio{Stdin: stdin, Stdout: w})
	out := s.linesOf(r)
	if _, err := out.next(); err != nil {
		s.failf("the command says nothing: %v", err)
	}
	return p, out
}

// wait gives a command's end.
func (s *scene) wait(p shared.Process) shared.Result {
	r, err := p.Wait(s.ctx)
	if err != nil {
		s.failf("waiting: %v", err)
	}
	return r
}

// endsBy waits for a command, which must end so.
func (s *scene) endsBy(p shared.Process, want shared.ExitStatus) {
	if r := s.wait(p); r.Status != want {
		s.failf("it ended with %v and not with %v", r.Status, want)
	}
}

func (s *scene) signal(p shared.Process, sig syscall.Signal) {
	if err := p.Signal(s.ctx, sig); err != nil {
		s.failf("signal %d: %v", sig, err)
	}
}

// endNow kills a command.
func (s *scene) endNow(p shared.Process) {
	p.Signal(s.ctx, syscall.SIGKILL)
	s.wait(p)
}

// run runs a command in a sandbox to its end.
func (s *scene) run(sandbox shared.Sandbox, cmd shared.Command, stdin *os.File) *outcome {
	return s.ran(s.start(s.ctx, sandbox, &trial{Command: cmd, stdin: stdin}))
}

// ran is a command whose end was told.
func (s *scene) ran(o *outcome) *outcome {
	switch {
	case o.refused != nil:
		s.failf("starting: %v", o.refused)
	case o.broke != nil:
		s.failf("waiting: %v", o.broke)
	case o.outlived:
		s.failf("an output stayed open after the end")
	}
	return o
}

// once opens a sandbox and runs a command in it.
func (s *scene) once(cmd shared.Command, stdin *os.File) *outcome {
	return s.run(s.open(), cmd, stdin)
}

// exits says whether a command ended with a code, having written that.
func (s *scene) exits(o *outcome, code int, stdout string) {
	s.died(o, shared.ExitStatus{Code: code})
	if o.stdout != stdout {
		s.failf("it writes %s and not %s; stderr: %s", tail(o.stdout), tail(stdout), tail(o.stderr))
	}
}

// died says whether a command ended as it should.
func (s *scene) died(o *outcome, want shared.ExitStatus) {
	if o.Status != want {
		s.failf("it ended with %v and not with %v; stdout: %s stderr: %s", o.Status, want, tail(o.stdout), tail(o.stderr))
	}
}

// works shows that the engine still does.
func (s *scene) works() {
	s.check("afterwards", func() { s.exits(s.once(s.sh("echo still here"), nil), 0, "still here\n") })
}

// until tries something again and again, while it is given an error, for one step's time.
func (s *scene) until(f func() error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(s.patience())
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.must(err)
		}
	}
}

// ends wants the end of what somebody still may write to.
func (s *scene) ends(r *os.File) {
	r.SetReadDeadline(time.Now().Add(s.patience()))
	buf := make([]byte, 512)
	for {
		if _, err := r.Read(buf); errors.Is(err, os.ErrDeadlineExceeded) {
			s.failf("something still holds the command's output")
		} else if err != nil {
			return
		}
	}
}

// refuses wants Open to fail with one of the kinds.
func (s *scene) refuses(spec shared.Spec, kinds ...error) {
	sandbox, err := s.engine.Open(s.ctx, spec)
	if err == nil {
		sandbox.Close(context.WithoutCancel(s.ctx))
	}
	s.wants("Open", err, kinds...)
}

// notStarted wants Start to fail, and gives its error.
func (s *scene) notStarted(sandbox shared.Sandbox, cmd shared.Command, stdio shared.Stdio) error {
	p, err := sandbox.Start(s.ctx, cmd, stdio)
	if err == nil {
		p.Signal(s.ctx, syscall.SIGKILL)
		r, err := p.Wait(s.ctx)
		s.must(errors.Join(fmt.Errorf("it was started, and ended with %v", r.Status), err))
	}
	return err
}
