package scene

import (
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// ActOutside carries out the trial's actions without a sandbox, up to one that fails.
func (s *Scene) ActOutside(t *Trial, privileged bool) (v actor.Verdict) {
	for _, act := range append(slices.Clone(t.First), t.Act) {
		one := *t
		one.Act = act
		if v = s.outsideOnce(&one, privileged); v.Kind != actor.Got {
			break
		}
	}
	return v
}

func (s *Scene) outsideOnce(t *Trial, privileged bool) actor.Verdict {
	inside := s.Command(t)
	cmd := exec.CommandContext(s.Ctx, inside.Args[0], inside.Args[1:]...)
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
	s.Must(err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if t.TTY {
		_, cmd.Stdin = s.Terminal()
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	}
	if err := cmd.Run(); cmd.ProcessState == nil {
		return actor.Verdict{Kind: actor.Absent, Detail: err.Error()}
	}
	text, err := os.ReadFile(out.Name())
	s.Must(err)
	var result shared.Result
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		result.Status.Signal = ws.Signal()
	}
	return readVerdict(string(text), result)
}
