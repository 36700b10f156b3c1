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

	"github.com/sbxhost/sbxhost/shared"
)

const (
	// attemptTimeout bounds one command with all that belongs to it.
	attemptTimeout = 60 * time.Second
	// outlivePatience is how long the outputs of a command may stay open after
	// it is gone before something is taken to have outlived it.
	outlivePatience = 10 * time.Second
	// maxOutput bounds what is kept of an output.
	maxOutput = 1 << 20
)

// outcome is all that one attempt brought.
type outcome struct {
	// refused is the error of Open or Start.
	refused error
	// broke is the error of Wait.
	broke  error
	result shared.Result
	events []shared.Event

	stdout, stderr []byte
	// outlived says that something held the outputs open after the end.
	outlived bool

	verdict verdict // what the action says, if it did
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
func (s *Suite) runProbe(ctx context.Context, p *probe) (status Status, detail string) {
	if why := p.only.excluded(); why != "" {
		return NotApplicable, why
	}
	if lacking := missing(s.info.Features, p.features); lacking != "" && !s.unconfined {
		return Skipped, "the engine does not claim " + lacking
	}
	if p.ownNetwork && s.info.Features.Has(shared.FeatureNetworkTranslated) {
		if p.control != controlGranted {
			return NotApplicable, "the network that the engine grants is not the host's own"
		}
		outside := *p
		outside.control, outside.grant = controlOutside, nil
		p = &outside
	}
	sc, err := s.newScene(p, p.id)
	defer func() {
		if err := sc.close(); err != nil && !status.Bad() {
			status, detail = Failed, "cleaning up: "+err.Error()
		}
	}()
	if absent, ok := errors.AsType[*absentError](err); ok {
		return NotApplicable, absent.why
	}
	if err != nil {
		return Failed, "preparing: " + err.Error()
	}
	if p.custom != nil {
		if lacking := missing(s.info.Features, p.requires(sc.newTrial())); lacking != "" && !s.unconfined {
			return Skipped, "the engine does not claim " + lacking
		}
		return p.custom(ctx, sc)
	}
	return sc.try(ctx)
}

// absentError is given by prepare where a machine lacks what a probe is about.
type absentError struct{ why string }

func (e *absentError) Error() string { return e.why }

// try makes the attempt and then its control.
func (s *scene) try(ctx context.Context) (Status, string) {
	p := s.p
	t := s.newTrial()
	p.trial(s, t)
	if lacking := missing(s.suite.info.Features, p.requires(t)); lacking != "" {
		return Skipped, "the engine does not claim " + lacking
	}
	o := s.attempt(ctx, t)
	status, detail := s.judge(o)
	if status == Held && !p.works && s.suite.unconfined && p.maybe {
		return NotApplicable, "not possible on this machine without a sandbox: " + detail
	}
	if status != Held || p.works || s.suite.unconfined {
		return status, detail
	}
	if p.control == controlNone {
		return Held, detail
	}
	// A scene of its own: the attempt may have changed this one.
	fresh, err := s.suite.newScene(p, p.id+"c")
	defer fresh.close()
	if err != nil {
		return ControlFailed, "preparing the control: " + err.Error()
	}
	return fresh.check(ctx, detail)
}

// judge says what an attempt means, as far as it can be said without a control.
func (s *scene) judge(o *outcome) (Status, string) {
	p := s.p
	if p.after != nil {
		if err := p.after(s, o); err != nil {
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
	case o.verdict.Kind == verdictBroken:
		return Failed, fmt.Sprintf("%s (%v) stderr: %s", o.told(), o.result.Status, tail(o.stderr))
	case p.works && o.verdict.Kind == verdictGot:
		return Held, o.told()
	case p.works:
		return Failed, o.told()
	case o.verdict.Kind == verdictGot:
		return Leaked, o.told()
	}
	return Held, o.told()
}

// check runs the control of what was held.
func (s *scene) check(ctx context.Context, held string) (Status, string) {
	var v verdict
	switch p := s.p; p.control {
	case controlGranted:
		t := s.newTrial()
		p.trial(s, t)
		p.grant(s, t)
		if lacking := missing(s.suite.info.Features, p.requires(t)); lacking != "" {
			return NotApplicable, "held, and the engine does not claim what the control needs: " + lacking
		}
		o := s.attempt(ctx, t)
		v = o.verdict
		if err := errors.Join(o.refused, o.broke); err != nil {
			v = verdict{Kind: verdictBroken, Detail: err.Error()}
		}
	default:
		t := s.newTrial()
		p.trial(s, t)
		if p.grant != nil {
			p.grant(s, t)
		}
		v = s.actOutside(ctx, t, p.control == controlPrivileged)
	}
	switch {
	case v.Kind == verdictGot:
		return Held, held
	case s.p.maybe || v.Kind == verdictAbsent:
		return NotApplicable, "not possible on this machine without a sandbox either: " + v.Detail
	}
	return ControlFailed, "the same action fails where it is granted: " + (&outcome{verdict: v}).told()
}

// attempt runs one command in the engine.
func (s *scene) attempt(ctx context.Context, t *trial) *outcome {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	o := &outcome{}
	sandbox, err := s.suite.engine.Open(ctx, t.sorted())
	if err != nil {
		o.refused = err
		return o
	}
	defer sandbox.Close(context.WithoutCancel(ctx))
	if t.Spec.Prepare {
		earlier := &trial{Spec: t.Spec, Command: t.Command, argv: []string{"/bin/true"}}
		if e := s.start(ctx, sandbox, earlier); e.refused != nil || e.broke != nil {
			return e
		}
	}
	for _, first := range t.first {
		earlier := *t
		earlier.act, earlier.first = first, nil
		if e := s.start(ctx, sandbox, &earlier); e.refused != nil || e.broke != nil || e.verdict.Kind == verdictBroken {
			return e
		}
	}
	return s.start(ctx, sandbox, t)
}

// start runs the trial's command to its end.
func (s *scene) start(ctx context.Context, sandbox shared.Sandbox, t *trial) *outcome {
	o := &outcome{}
	outR, outW, err := os.Pipe()
	if err != nil {
		o.refused = err
		return o
	}
	defer outR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		outW.Close()
		o.refused = err
		return o
	}
	defer errR.Close()
	cmd, stdio := t.Command, shared.Stdio{Stdin: t.stdin, Stdout: outW, Stderr: errW}
	cmd.Args, cmd.Env = s.commandLine(t)
	var terminal *terminal
	if t.tty {
		if terminal, err = openTerminal(); err != nil {
			outW.Close()
			errW.Close()
			o.refused = err
			return o
		}
		defer terminal.close()
		outW.Close()
		outR.Close()
		outR, outW = terminal.master, terminal.slave
		cmd.TTY, stdio = true, shared.Stdio{Stdin: terminal.slave, Stdout: terminal.slave, Stderr: terminal.slave}
	}
	process, err := sandbox.Start(ctx, cmd, stdio)
	outW.Close()
	errW.Close()
	if err != nil {
		o.refused = err
		return o
	}
	stderr := collect(errR)
	var told []byte
	if t.awaited {
		outR.SetReadDeadline(time.Now().Add(actionTimeout))
		told = readUntil(outR, verdictPrefix)
		outR.SetReadDeadline(time.Time{})
	}
	stdout := collect(outR)
	if t.during != nil {
		t.during(process)
	}
	for e := range process.Events() {
		o.events = append(o.events, e)
	}
	o.result, o.broke = process.Wait(ctx)
	if !t.tty { // a terminal's end of file is an error of its own
		limit := time.Now().Add(outlivePatience)
		outR.SetReadDeadline(limit)
		errR.SetReadDeadline(limit)
	}
	var timedOut [2]bool
	o.stdout, timedOut[0] = stdout()
	o.stdout = append(told, o.stdout...)
	o.stderr, timedOut[1] = stderr()
	o.outlived = timedOut[0] || timedOut[1]
	o.verdict = readVerdict(o.stdout, o.result)
	return o
}

// attemptWhile runs a command that waits, and does something meanwhile.
func (s *scene) attemptWhile(ctx context.Context, t *trial, f func()) *outcome {
	r, w, err := os.Pipe()
	if err != nil {
		return &outcome{refused: err}
	}
	defer r.Close()
	defer w.Close()
	t.stdin = r
	t.do("hold")
	t.during = func(shared.Process) {
		f()
		w.Close()
	}
	return s.attempt(ctx, t)
}

// commandLine is the kit's own program with the action, or what the trial names.
func (s *scene) commandLine(t *trial) (args, env []string) {
	if t.argv != nil {
		return t.argv, t.Command.Env
	}
	return append([]string{s.suite.actor, actorArg}, t.act...), append(append([]string{}, t.Command.Env...), actorEnv)
}

// readUntil reads until a text has come, or nothing does any more.
func readUntil(r io.Reader, text string) (got []byte) {
	buf := make([]byte, 512)
	for !bytes.Contains(got, []byte(text)) {
		n, err := r.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			break
		}
	}
	return got
}

// collect reads to the end, keeping a part; the function that it gives waits
// and says whether the deadline ended it.
func collect(r *os.File) func() ([]byte, bool) {
	type read struct {
		data []byte
		late bool
	}
	done := make(chan read, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, maxOutput))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		done <- read{data, errors.Is(err, os.ErrDeadlineExceeded)}
	}()
	return func() ([]byte, bool) {
		got := <-done
		return got.data, got.late
	}
}

// readVerdict finds what the action has said among all that was written.
func readVerdict(stdout []byte, result shared.Result) verdict {
	for line := range strings.Lines(string(stdout)) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), verdictPrefix)
		if !ok {
			continue
		}
		var v verdict
		if json.Unmarshal([]byte(text), &v) == nil {
			return v
		}
	}
	switch {
	case result.TimedOut:
		return verdict{Kind: verdictBroken, Detail: "the action hung and was ended"}
	case result.Status.Signal == syscall.SIGSYS:
		return verdict{Kind: verdictDenied, Detail: "killed by SIGSYS"}
	}
	return verdict{Kind: verdictBroken, Detail: fmt.Sprintf("the action said nothing; stdout: %s", tail(stdout))}
}

// tail is the end of a text, fit for one line.
func tail(b []byte) string {
	const limit = 300
	if len(b) > limit {
		b = b[len(b)-limit:]
	}
	return fmt.Sprintf("%q", b)
}
