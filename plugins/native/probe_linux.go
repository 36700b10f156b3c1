package native

import (
	"context"
	"errors"
	"os"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// probe starts a sandbox like any command's, and an overlay.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	return e.prober.Probe(ctx, e, map[string]string{}, func(ctx context.Context, p *shared.Probe) {
		nsengine.ReportRooted(p)
		p.Facts["overlay"] = "works"
		if err := e.tryOverlay(ctx); err != nil {
			p.Facts["overlay"] = err.Error()
			p.Degraded = append(p.Degraded, "overlays are read-only: "+err.Error())
		}
	})
}

// tryOverlay finds out whether a session can have an overlay on the file system of temporary files.
func (e *engine) tryOverlay(ctx context.Context) error {
	dir, err := wire.PrivateDir([]string{os.TempDir()}, "")
	if err != nil {
		return err
	}
	defer scratch.RemoveTree(dir)
	lower, state := dir+"/lower", dir+"/session"
	if err := errors.Join(os.Mkdir(lower, 0o700), os.Mkdir(state, 0o700)); err != nil {
		return err
	}
	s := &openSandbox{engine: e, Table: &mountplan.Table{Support: &mountplan.Support{}, Spec: &shared.Spec{
		Session: shared.Session{Dir: state},
		Table:   []shared.Entry{{Source: lower, Path: "/overlay", Access: shared.Overlay, Degradable: true}},
	}}}
	if err := s.join(ctx); err != nil {
		return err
	}
	defer s.leave()
	if reason := s.Support.NoOverlay(lower); reason != "" {
		return errors.New(reason)
	}
	return nil
}
