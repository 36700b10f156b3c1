package noop

import (
	"os/exec"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// New makes the engine.
func New() shared.Engine {
	return cmdengine.New(cmdengine.Config{Info: info, Launch: launch, Plan: plan})
}

// launch leaves Path empty: the command's own PATH finds it.
func launch(_ *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
	return &exec.Cmd{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}, nil
}

func plan(*shared.Spec, *shared.Command) (shared.Plan, error) {
	return shared.Plan{Notes: []string{"the command runs without any isolation"}}, nil
}
