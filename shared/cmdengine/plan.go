package cmdengine

import (
	"context"
	"os"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/shared"
)

func (s *sandbox) Plan(ctx context.Context, cmd shared.Command) (shared.Plan, error) {
	if s.open.Err() != nil {
		return shared.Plan{}, errClosed()
	}
	if err := ctx.Err(); err != nil {
		return shared.Plan{}, err
	}
	if err := s.check(&cmd); err != nil {
		return shared.Plan{}, err
	}
	if !s.engine.config.Init {
		var script *os.File
		var err error
		if cmd, script, err = withoutScript(cmd); err != nil {
			return shared.Plan{}, err
		}
		script.Close()
	}
	plan, err := s.attached.Plan(&cmd)
	if err != nil {
		return shared.Plan{}, err
	}
	if plan.Argv == nil {
		c, err := s.command(&cmd)
		if err != nil {
			return shared.Plan{}, err
		}
		frame.CloseFiles(c.ExtraFiles)
		plan.Argv = append(plan.Argv, c.Args...)
		if s.engine.config.Init {
			plan.Argv = append(plan.Argv, PlannedInit()...)
		}
	}
	for _, e := range s.attached.Events() {
		plan.Notes = append(plan.Notes, e.Message)
	}
	for _, h := range s.holdings {
		plan.Notes = append(plan.Notes, h.event().Message)
	}
	return plan, nil
}
