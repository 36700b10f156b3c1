package scene

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// ActOutside carries out the trial's action without a sandbox.
func (s *Scene) ActOutside(t *Trial, privileged bool) actor.Verdict {
	ctx := s.Ctx
	for _, first := range t.First {
		earlier := *t
		earlier.Act = first
		if v := s.outsideOnce(ctx, &earlier, privileged); v.Kind != actor.Got {
			return v
		}
	}
	return s.outsideOnce(ctx, t, privileged)
}

func (s *Scene) outsideOnce(ctx context.Context, t *Trial, privileged bool) actor.Verdict {
	inside := s.Command(t)
	cmd := exec.CommandContext(ctx, inside.Args[0], inside.Args[1:]...)
	// A probe may be about the host's own environment.
	cmd.Env = append(os.Environ(), inside.Env...)
	cmd.Dir = inside.Dir
	cmd.SysProcAttr = outsideAttr(privileged)
	if t.Stdin != nil {
		t.Stdin.Seek(0, 0)
		cmd.Stdin = t.Stdin
	}
	// The outputs are files, so that a process that is left behind delays nobody.
	out, err := os.CreateTemp(s.Dir, "out-")
	if err != nil {
		return actor.Verdict{Kind: actor.Broken, Detail: err.Error()}
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if t.TTY {
		master, slave, err := pty.Open()
		if err != nil {
			return actor.Verdict{Kind: actor.Absent, Detail: err.Error()}
		}
		defer master.Close()
		defer slave.Close()
		cmd.Stdin = slave
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	}
	err = cmd.Run()
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		return actor.Verdict{Kind: actor.Broken, Detail: readErr.Error()}
	}
	var result shared.Result
	if cmd.ProcessState == nil {
		return actor.Verdict{Kind: actor.Absent, Detail: err.Error()}
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		result.Status.Signal = ws.Signal()
	}
	v := readVerdict(string(text), result)
	if v.Kind == actor.Broken && !bytes.Contains(text, []byte(actor.Prefix)) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		v.Detail = "it hung"
	}
	return v
}
