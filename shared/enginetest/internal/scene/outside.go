package scene

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// ActOutside carries out the trial's own action, without input and without a sandbox.
func (s *Scene) ActOutside(t *Trial, privileged bool) actor.Verdict {
	inside := s.Command(t)
	cmd := exec.CommandContext(s.Ctx, inside.Args[0], inside.Args[1:]...)
	// A probe may be about the host's own environment.
	cmd.Env = append(os.Environ(), inside.Env...)
	cmd.Dir = inside.Dir
	cmd.SysProcAttr = outsideAttr(privileged)
	cmd.WaitDelay = time.Second // a process that is left behind holds the outputs
	if t.TTY {
		_, cmd.Stdin = s.Terminal()
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	}
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return actor.Verdict{Kind: actor.Absent, Detail: err.Error()}
	}
	ended := shared.ExitStatus{Signal: cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()}
	return readVerdict(string(text), shared.Result{Status: ended})
}
