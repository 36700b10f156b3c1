package scene

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// maxOutput bounds what is kept of an output.
const maxOutput = 1 << 20

// Outcome is the result of one attempt.
type Outcome struct {
	shared.Result
	// Refused is the error of Open or Start, and Broke is the error of Wait.
	Refused, Broke error

	Stdout, Stderr string
	// Outlived says that something held the outputs open after the end.
	Outlived bool

	Verdict actor.Verdict // the action's own report, if there is one
}

// Output is the action's output, as much as fits into a line.
func (o *Outcome) Output() string {
	const limit = 400
	if d := o.Verdict.Detail; len(d) > limit {
		return d[:limit] + "..."
	}
	return o.Verdict.Detail
}

// Attempt opens the trial's sandbox and runs its command there.
func (s *Scene) Attempt(t *Trial) *Outcome {
	sandbox, err := s.Engine.Open(s.Ctx, t.Sorted())
	if err != nil {
		return &Outcome{Refused: err}
	}
	defer sandbox.Close(context.WithoutCancel(s.Ctx))
	return s.AttemptIn(sandbox, t)
}

// AttemptIn runs a trial's command, after the earlier ones, in its sandbox.
func (s *Scene) AttemptIn(sandbox shared.Sandbox, t *Trial) *Outcome {
	if t.Spec.Prepare {
		earlier := &Trial{Command: t.Command}
		earlier.Command.Args = []string{"/bin/true"}
		if o := s.Start(s.Ctx, sandbox, earlier); o.Refused != nil || o.Broke != nil {
			return o
		}
	}
	for _, first := range t.First {
		earlier := *t
		earlier.Act, earlier.First = first, nil
		if o := s.Start(s.Ctx, sandbox, &earlier); o.Refused != nil || o.Broke != nil || o.Verdict.Kind == actor.Broken {
			return o
		}
	}
	return s.Start(s.Ctx, sandbox, t)
}

// Start runs the trial's command to its end.
func (s *Scene) Start(ctx context.Context, sandbox shared.Sandbox, t *Trial) *Outcome {
	o := &Outcome{}
	outR, outW := s.Pipe()
	errR, errW := s.Pipe()
	defer errR.Close()
	cmd, stdio := s.Command(t), shared.Stdio{Stdin: t.Stdin, Stdout: outW, Stderr: errW}
	if t.TTY {
		outR, outW = s.Terminal()
		cmd.TTY, stdio = true, shared.Stdio{Stdin: outW, Stdout: outW, Stderr: outW}
	}
	defer outR.Close()
	process, err := sandbox.Start(ctx, cmd, stdio)
	outW.Close()
	errW.Close()
	if err != nil {
		o.Refused = err
		return o
	}
	stderr := collect(errR)
	told := ""
	if t.Awaited {
		outR.SetReadDeadline(time.Now().Add(actor.Timeout))
		told, _ = actor.ReadUntil(outR, actor.Prefix)
		outR.SetReadDeadline(time.Time{})
	}
	stdout := collect(outR)
	if t.During != nil {
		t.During(process)
	}
	o.Result, o.Broke = process.Wait(ctx)
	if !t.TTY { // a terminal's end of file is an error of its own
		limit := time.Now().Add(min(outlivePatience, s.Patience()))
		outR.SetReadDeadline(limit)
		errR.SetReadDeadline(limit)
	}
	out, outLate := stdout()
	text, errLate := stderr()
	o.Stdout, o.Stderr, o.Outlived = told+out, text, outLate || errLate
	o.Verdict = readVerdict(o.Stdout, o.Result)
	return o
}

// Command is the kit's own program with the action, or the command that the trial names.
func (s *Scene) Command(t *Trial) shared.Command {
	cmd := t.Command
	if t.Act != nil {
		cmd.Args = append([]string{s.Kit.Program, actor.Arg}, t.Act...)
		cmd.Env = append(append([]string{}, cmd.Env...), actor.Env)
		if t.Script {
			cmd.Script = `exec "$@"`
		}
	}
	return cmd
}

// collect reads to the end, and keeps a part. The function that it returns waits, and reports
// whether the deadline ended the read.
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

// readVerdict finds the action's report in the output.
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
	switch sig := result.Status.Signal; {
	case result.TimedOut:
		return actor.Verdict{Kind: actor.Broken, Detail: "the action hung and was ended"}
	case sig == syscall.SIGSYS:
		return actor.Verdict{Kind: actor.Denied, Detail: "killed by SIGSYS"}
	case isFault(sig):
		return actor.Verdict{Kind: actor.Broken, Detail: "the action was ended by " + shared.SignalName(sig)}
	}
	return actor.Verdict{Kind: actor.Broken, Detail: "the action said nothing; stdout: " + Tail(stdout)}
}

// Faulted reports whether the action ended because the processor refused an instruction.
func (o *Outcome) Faulted() bool { return o.Verdict.Kind == actor.Broken && isFault(o.Status.Signal) }

func isFault(sig syscall.Signal) bool {
	return slices.Contains([]syscall.Signal{syscall.SIGSEGV, syscall.SIGILL, syscall.SIGBUS}, sig)
}

// Tail is the end of a text, fit for one line.
func Tail(text string) string {
	const limit = 300
	return fmt.Sprintf("%q", text[max(0, len(text)-limit):])
}
