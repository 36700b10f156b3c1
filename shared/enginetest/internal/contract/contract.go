// Package contract has the rules of package shared that every engine keeps, isolated or not: a
// file for each part. machine_*.go looks at the processes of this machine.
package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// A Rule is one demand of package shared.
type Rule struct {
	ID, Title string
	// Features are needed; without them the rule says nothing about the engine.
	Features []shared.Feature
	// process says that the rule needs an engine in a process of its own.
	process bool
	// Alone says that the rule measures this process, which nothing else may use meanwhile.
	Alone bool
	run   func(s *subject)
}

// A subject is the engine on which a rule is tried, in a scene of its own.
type subject struct{ *scene.Scene }

// Rules are all rules.
func Rules() []Rule {
	return slices.Concat(openRules(), endRules(), streamRules(), commandRules(), misuseRules(), crowdRules(), processRules(), sessionRules())
}

// Try tries the rule.
func (r *Rule) Try(ctx context.Context, k *scene.Kit) (scene.Status, string) {
	if r.process && k.Launch == nil {
		return scene.NotApplicable, "the engine runs in this process"
	}
	if lacking := scene.Missing(k.Info.Features, r.Features); lacking != "" {
		return scene.Skipped, scene.NotClaimed + lacking
	}
	return k.InScene(ctx, scene.Place{ID: r.ID, AnyView: true, AnyNetwork: true}, r.ID, func(s *scene.Scene) { r.run(&subject{s}) })
}

// spec is the sandbox that every rule starts from.
func (s *subject) spec() shared.Spec { return s.NewTrial().Spec }

// inside is the kit's own program with an action.
func (s *subject) inside(action string, args ...string) shared.Command {
	return s.Command(s.Trying(action, args...))
}

// sh runs shell text, by argv.
func (s *subject) sh(text string, args ...string) shared.Command {
	return s.program(append([]string{"/bin/sh", "-c", text, "sh"}, args...)...)
}

// program runs a program of the system.
func (s *subject) program(words ...string) shared.Command {
	cmd := s.NewTrial().Command
	cmd.Args = words
	return cmd
}

// forever ends shell text that goes on.
const forever = "; while :; do sleep 0.02; done"

// open opens the usual sandbox, which is closed at the end.
func (s *subject) open() shared.Sandbox { return s.OpenAs(s.spec()) }

// begin starts a command, and closes the files that it was given.
func (s *subject) begin(sandbox shared.Sandbox, cmd shared.Command, stdio shared.Stdio) shared.Process {
	p, err := sandbox.Start(s.Ctx, cmd, stdio)
	for _, f := range []*os.File{stdio.Stdin, stdio.Stdout, stdio.Stderr} {
		f.Close()
	}
	s.Demand(err == nil, "starting: %v", err)
	return p
}

// piped starts a command, and returns what reads its output.
func (s *subject) piped(sandbox shared.Sandbox, cmd shared.Command) (shared.Process, *os.File) {
	r, w := s.Pipe()
	return s.begin(sandbox, cmd, shared.Stdio{Stdout: w}), r
}

// started starts shell text and waits for the first line that it writes.
func (s *subject) started(sandbox shared.Sandbox, text string) (shared.Process, *os.File) {
	p, r := s.piped(sandbox, s.sh(text))
	s.until(r, "\n")
	return p, r
}

// until reads what a command writes, to a text that must come.
func (s *subject) until(r io.Reader, text string) string {
	got, err := actor.ReadUntil(r, text)
	s.Demand(err == nil, "%s comes, and no %q: %v", scene.Tail(got), text, err)
	return got
}

// wait returns a command's end.
func (s *subject) wait(p shared.Process) shared.Result {
	r, err := p.Wait(s.Ctx)
	s.Demand(err == nil, "waiting: %v", err)
	return r
}

// endsBy waits for a command, which must end with this status.
func (s *subject) endsBy(p shared.Process, want shared.ExitStatus) {
	r := s.wait(p)
	s.Demand(r.Status == want, "it ended with %v and not with %v", r.Status, want)
}

// exitsWith waits for a command, which must exit with this code.
func (s *subject) exitsWith(p shared.Process, code int) { s.endsBy(p, shared.ExitStatus{Code: code}) }

func (s *subject) signal(p shared.Process, sig syscall.Signal) {
	err := p.Signal(s.Ctx, sig)
	s.Demand(err == nil, "signal %d: %v", sig, err)
}

// endNow kills a command.
func (s *subject) endNow(p shared.Process) {
	p.Signal(s.Ctx, syscall.SIGKILL)
	s.wait(p)
}

// run runs a command in a sandbox to its end.
func (s *subject) run(sandbox shared.Sandbox, cmd shared.Command, stdin *os.File) *scene.Outcome {
	o := s.Start(s.Ctx, sandbox, &scene.Trial{Command: cmd, Stdin: stdin})
	s.Demand(o.Refused == nil, "starting: %v", o.Refused)
	s.Demand(o.Broke == nil, "waiting: %v", o.Broke)
	s.Demand(!o.Outlived, "an output stayed open after the end")
	return o
}

// once opens a sandbox and runs a command in it.
func (s *subject) once(cmd shared.Command, stdin *os.File) *scene.Outcome {
	return s.run(s.open(), cmd, stdin)
}

// exits checks that a command ended with a code, and wrote this text.
func (s *subject) exits(o *scene.Outcome, code int, stdout string) {
	s.died(o, shared.ExitStatus{Code: code})
	s.Demand(o.Stdout == stdout, "it writes %s and not %s; stderr: %s", scene.Tail(o.Stdout), scene.Tail(stdout), scene.Tail(o.Stderr))
}

// died checks that a command ended with this status.
func (s *subject) died(o *scene.Outcome, want shared.ExitStatus) {
	s.Demand(o.Status == want, "it ended with %v and not with %v; stdout: %s stderr: %s", o.Status, want, scene.Tail(o.Stdout), scene.Tail(o.Stderr))
}

// prints runs shell text in a sandbox, and checks that it succeeded and wrote this.
func (s *subject) prints(sandbox shared.Sandbox, text, stdout string) {
	s.exits(s.run(sandbox, s.sh(text), nil), 0, stdout)
}

// works checks that the engine still works.
func (s *subject) works() { s.Check("afterwards", s.worksOnce) }

func (s *subject) worksOnce() { s.prints(s.open(), "echo still here", "still here\n") }

// ends fails the case unless a file ends that somebody may still write to.
func (s *subject) ends(r *os.File) {
	r.SetReadDeadline(time.Now().Add(s.Patience()))
	_, err := io.Copy(io.Discard, r)
	s.Demand(!errors.Is(err, os.ErrDeadlineExceeded), "something still holds the command's output")
}

// refuses fails the case unless Open fails with one of the kinds, and returns the error.
func (s *subject) refuses(spec shared.Spec, kinds ...error) error {
	sandbox, err := s.Engine.Open(s.Ctx, spec)
	if err == nil {
		sandbox.Close(context.WithoutCancel(s.Ctx))
	}
	s.Wants("Open", err, kinds...)
	return err
}

// notStarted fails the case unless Start fails, and returns the error.
func (s *subject) notStarted(sandbox shared.Sandbox, cmd shared.Command, stdio shared.Stdio) error {
	p, err := sandbox.Start(s.Ctx, cmd, stdio)
	if err == nil {
		p.Signal(s.Ctx, syscall.SIGKILL)
		r, err := p.Wait(s.Ctx)
		s.Must(errors.Join(fmt.Errorf("it was started, and ended with %v", r.Status), err))
	}
	return err
}
