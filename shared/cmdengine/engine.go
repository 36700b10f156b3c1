package cmdengine

import (
	"context"
	"slices"
	"sync"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/shared"
)

type engine struct {
	config    Config
	limitHost func() cgroup.Host // finds out once what enforces limits here

	keeping  sync.Mutex
	sessions map[string]*persistentSession // by the session's ID
}

// limitHost finds out what can enforce limits here, and removes the groups of engines that were
// killed.
func limitHost() cgroup.Host {
	groups := cgroup.Look()
	groups.Sweep()
	return groups
}

func (e *engine) Info(context.Context) (shared.Info, error) { return e.config.Info, nil }

func (e *engine) Probe(ctx context.Context) (shared.Probe, error) {
	if e.config.Probe == nil {
		return shared.Probe{Ready: true}, nil
	}
	return e.config.Probe(ctx)
}

func (e *engine) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := admit(&e.config.Info, &spec); err != nil {
		return nil, err
	}
	spec.Table = slices.Clone(spec.Table)
	if e.config.Open != nil {
		if err := e.config.Open(ctx, &spec); err != nil {
			return nil, err
		}
	}
	credential, err := credentialFor(spec.User, processUser())
	if err != nil {
		return nil, err
	}
	s := newSandbox(e, spec, credential)
	if err := s.decideLimits(); err != nil {
		return nil, err
	}
	if err := s.findInit(); err != nil {
		return nil, err
	}
	if s.attached, err = e.config.attach(ctx, &s.spec); err != nil {
		return nil, err
	}
	if spec.Session.Processes {
		if s.session, err = e.keep(s); err != nil {
			s.detach()
			return nil, err
		}
	}
	if spec.Session.ID == "" { // the session of one command, which may not be known yet
		s.makeSpare()
	}
	return s, nil
}
