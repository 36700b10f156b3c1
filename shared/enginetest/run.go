package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

const (
	// probeTimeout bounds a probe, and attemptTimeout one command with all that belongs to it.
	probeTimeout   = 4 * time.Minute
	attemptTimeout = 60 * time.Second
	// maxOutput bounds what is kept of an output.
	maxOutput = 1 << 20
)

// outcome is all that one attempt brought.
type outcome struct {
	shared.Result
	// refused is the error of Open or Start, broke that of Wait.
	refused, broke error

	stdout, stderr string
	// outlived says that something held the outputs open after the end.
	outlived bool

	verdict actor.Verdict // what the action says, if it did
}

// told is what the action brought out, as much as fits a line.
func (o *outcome) told() string {
	const limit = 400
	if d := o.verdict.Detail; len(d) > limit {
		return d[:limit] + "..."
	}
	return o.verdict.Detail
}

// runProbe tries a probe.
func (s *Suite) runProbe(ctx context.Context, p *probe) (Status, string) {
	if p.only != "" && p.only != thisSystem {
		return NotApplicable, "only on " + p.only
	}
	if lacking := missing(s.info.Features, p.features); lacking != "" && !s.unconfined {
		return Skipped, notClaimed + lacking
	}
	if p.ownNetwork && s.info.Features.Has(shared.FeatureNetworkTranslated) {
		if p.where() != controlGranted {
			return NotApplicable, "the network that the engine grants is not the host's own"
		}
		outside := *p
		outside.control, outside.grant = controlOutside, nil
		p = &outside
	}
	return s.inScene(ctx, p, p.id, probeTimeout, func(sc *scene) {
		if p.custom == nil {
			sc.try()
			return
		}
		if lacking := missing(s.info.Features, p.requires(sc.newTrial())); lacking != "" && !s.unconfined {
			sc.end(Skipped, "%s", notClaimed+lacking)
		}
		p.custom(sc)
	})
}

const notClaimed = "the engine does not claim "

// asked is the trial of the scene's probe.
func (s *scene) asked() *trial {
	t := s.newTrial()
	for _, path := range s.fill(s.p.show...) {
		t.show(path, shared.ReadOnly)
	}
	for _, path := range s.fill(s.p.hide...) {
		t.hide(path)
	}
	t.act = s.fill(s.p.act...)
	if s.p.trial != nil {
		s.p.trial(s, t)
	}
	return t
}

// granted is that trial where what is tried is granted.
func (s *scene) granted() *trial {
	t := s.asked()
	if s.p.grant != nil {
		s.p.grant(s, t)
	}
	return t
}

// try makes the attempt and then its control.
func (s *scene) try() {
	p, unconfined := s.p, s.suite.unconfined
	t := s.asked()
	if lacking := missing(s.suite.info.Features, p.requires(t)); lacking != "" {
		s.end(Skipped, "%s", notClaimed+lacking)
	}
	status, detail := s.judge(s.attempt(t))
	if status == Held && !p.works && unconfined && p.maybe {
		s.end(NotApplicable, "not possible on this machine without a sandbox: %s", detail)
	}
	if status == Held && !p.works && (!unconfined || p.ofLimit()) {
		// A scene of its own: the attempt may have changed this one.
		status, detail = s.suite.inScene(s.ctx, p, p.id+"c", probeTimeout, func(fresh *scene) { fresh.checkControl(detail) })
	}
	s.end(status, "%s", detail)
}

// judge says what an attempt means, as far as it can be said without a control.
func (s *scene) judge(o *outcome) (Status, string) {
	p := s.p
	if p.after != nil {
		if err := p.after(s); err != nil {
			return Leaked, err.Error()
		}
	}
	refusal := errors.Is(o.refused, shared.ErrInvalidSpec) || errors.Is(o.refused, shared.ErrUnsupported) || errors.Is(o.refused, shared.ErrDenied)
	switch {
	case o.refused != nil && p.refusal && refusal:
		return Held, "refused: " + o.refused.Error()
	case s.suite.unconfined && refusal:
		return Skipped, "the engine refuses: " + o.refused.Error()
	case len(p.features) > 0 && errors.Is(o.refused, shared.ErrUnsupported):
		// It may hold a feature on some machines and refuse it on others.
		return NotApplicable, "the engine refuses it on this machine: " + o.refused.Error()
	case o.refused != nil:
		return Failed, "starting: " + o.refused.Error()
	case o.broke != nil:
		return Failed, "waiting: " + o.broke.Error()
	case o.verdict.Kind == actor.Broken:
		return Failed, fmt.Sprintf("%s (%v) stderr: %s", o.told(), o.Status, tail(o.stderr))
	case p.works && o.verdict.Kind == actor.Absent:
		return NotApplicable, o.told()
	case p.works && o.verdict.Kind != actor.Got:
		return Failed, o.told()
	case !p.works && o.verdict.Kind == actor.Got:
		return Leaked, o.told()
	}
	return Held, o.told()
}

// checkControl runs the control of what was held.
func (s *scene) checkControl(held string) {
	var v actor.Verdict
	t := s.granted()
	if where := s.p.where(); where == controlGranted {
		if lacking := missing(s.suite.info.Features, s.p.requires(t)); lacking != "" {
			s.end(NotApplicable, "held, and the engine does not claim what the control needs: %s", lacking)
		}
		o := s.attempt(t)
		v = o.verdict
		if err := errors.Join(o.refused, o.broke); err != nil {
			v = actor.Verdict{Kind: actor.Broken, Detail: err.Error()}
		}
	} else {
		v = s.actOutside(t, where == controlPrivileged)
	}
	switch {
	case v.Kind == actor.Got:
		s.end(Held, "%s", held)
	case v.Kind == actor.Absent && s.p.where() == controlGranted:
		s.end(NotApplicable, "held, and not possible where it is granted: %s", v.Detail)
	case s.p.maybe || v.Kind == actor.Absent:
		s.end(NotApplicable, "not possible on this machine without a sandbox either: %s", v.Detail)
	}
	s.end(ControlFailed, "the same action fails where it is granted: %s", (&outcome{verdict: v}).told())
}

// attempt opens the trial's sandbox and runs its command there.
func (s *scene) attempt(t *trial) *outcome {
	ctx, cancel := context.WithTimeout(s.ctx, attemptTimeout)
	defer cancel()
	sandbox, err := s.engine.Open(ctx, t.sorted())
	if err != nil {
		return &outcome{refused: err}
	}
	defer sandbox.Close(context.WithoutCancel(ctx))
	if t.Spec.Prepare {
		earlier := &trial{Spec: t.Spec, Command: t.Command}
		earlier.Command.Args = []string{"/bin/true"}
		if o := s.start(ctx, sandbox, earlier); o.refused != nil || o.broke != nil {
			return o
		}
	}
	for _, first := range t.first {
		earlier := *t
		earlier.act, earlier.first = first, nil
		if o := s.start(ctx, sandbox, &earlier); o.refused != nil || o.broke != nil || o.verdict.Kind == actor.Broken {
			return o
		}
	}
	return s.start(ctx, sandbox, t)
}

// done is an attempt whose command must have run, and its action must have been tried.
func (s *scene) done(t *trial) *outcome {
	o := s.attempt(t)
	s.must(errors.Join(o.refused, o.broke))
	if o.verdict.Kind == actor.Broken && t.act != nil {
		s.failf("%s", o.told())
	}
	return o
}

// start runs the trial's command to its end.
func (s *scene) start(ctx context.Context, sandbox shared.Sandbox, t *trial) *outcome {
	o := &outcome{}
	outR, outW := s.pipe()
	errR, errW := s.pipe()
	defer errR.Close()
	cmd, stdio := s.command(t), shared.Stdio{Stdin: t.stdin, Stdout: outW, Stderr: errW}
	if t.tty {
		if outR, outW, o.refused = pty.Open(); o.refused != nil {
			return o
		}
		cmd.TTY, stdio = true, shared.Stdio{Stdin: outW, Stdout: outW, Stderr: outW}
	}
	defer outR.Close()
	process, err := sandbox.Start(ctx, cmd, stdio)
	outW.Close()
	errW.Close()
	if err != nil {
		o.refused = err
		return o
	}
	stderr := collect(errR)
	told := ""
	if t.awaited {
		outR.SetReadDeadline(time.Now().Add(actor.Timeout))
		told, _ = readUntil(outR, actor.Prefix)
		outR.SetReadDeadline(time.Time{})
	}
	stdout := collect(outR)
	if t.during != nil {
		t.during(process)
	}
	o.Result, o.broke = process.Wait(ctx)
	if !t.tty { // a terminal's end of file is an error of its own
		limit := time.Now().Add(min(outlivePatience, s.patience()))
		outR.SetReadDeadline(limit)
		errR.SetReadDeadline(limit)
	}
	out, outLate := stdout()
	text, errLate := stderr()
	o.stdout, o.stderr, o.outlived = told+out, text, outLate || errLate
	o.verdict = readVerdict(o.stdout, o.Result)
	return o
}

// attemptWhile runs a command that waits, and does something meanwhile.
func (s *scene) attemptWhile(t *trial, f func()) *outcome {
	r, w := s.pipe()
	t.stdin = r
	t.do("hold")
	t.during = func(shared.Process) {
		f()
		w.Close()
	}
	return s.attempt(t)
}

// command is the kit's own program with the action, or what the trial names.
func (s *scene) command(t *trial) shared.Command {
	cmd := t.Command
	if t.act != nil {
		cmd.Args = append([]string{s.suite.actor, actor.Arg}, t.act...)
		cmd.Env = append(append([]string{}, cmd.Env...), actor.Env)
		if t.script {
			cmd.Script = `exec "$@"`
		}
	}
	return cmd
}

// readUntil reads until a text has come, or nothing does any more.
func readUntil(r io.Reader, text string) (string, error) {
	var got []byte
	buf := make([]byte, 512)
	for !bytes.Contains(got, []byte(text)) {
		n, err := r.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			return string(got), err
		}
	}
	return string(got), nil
}

// collect reads to the end, keeping a part; the function that it gives waits
// and says whether the deadline ended it.
func collect(r *os.File) func() (string, bool) {
	var data []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if data, err = io.ReadAll(io.LimitReader(r, maxOutput)); err == nil {
			_, err = io.Copy(io.Discard, r)
		}
	}()
	return func() (string, bool) {
		<-done
		return string(data), errors.Is(err, os.ErrDeadlineExceeded)
	}
}

// readVerdict finds what the action has said among all that was written.
func readVerdict(stdout string, result shared.Result) actor.Verdict {
	for line := range strings.Lines(stdout) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), actor.Prefix)
		if !ok {
			continue
		}
		var v actor.Verdict
		if json.Unmarshal([]byte(text), &v) == nil {
			return v
		}
	}
	switch {
	case result.TimedOut:
		return actor.Verdict{Kind: actor.Broken, Detail: "the action hung and was ended"}
	case result.Status.Signal == syscall.SIGSYS:
		return actor.Verdict{Kind: actor.Denied, Detail: "killed by SIGSYS"}
	}
	return actor.Verdict{Kind: actor.Broken, Detail: "the action said nothing; stdout: " + tail(stdout)}
}

// tail is the end of a text, fit for one line.
func tail(text string) string {
	const limit = 300
	return fmt.Sprintf("%q", text[max(0, len(text)-limit):])
}
