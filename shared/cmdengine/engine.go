//go:build unix

package cmdengine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine/cgroup"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

type engine struct {
	config Config
	forker *forker

	looked sync.Once
	groups cgroup.Host // what holds limits here, once looked

	keeping sync.Mutex
	kept    map[string]*kept // by the session's ID
}

// limitHost finds out what can hold limits here, and clears away what engines
// have left that were killed.
func (e *engine) limitHost() cgroup.Host {
	e.looked.Do(func() {
		e.groups = cgroup.Look()
		e.groups.Sweep()
	})
	return e.groups
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
	spec = clone(spec)
	if e.config.Open != nil {
		if err := e.config.Open(ctx, &spec); err != nil {
			return nil, err
		}
	}
	credential, err := credentialFor(spec.User, processIdentity())
	if err != nil {
		return nil, err
	}
	s := newSandbox(e, spec, credential)
	if l := spec.Limits; e.config.HoldLimits && e.config.Init && (l.Memory > 0 || l.CPUs > 0 || l.PIDs > 0) {
		if err := s.decideLimits(); err != nil {
			return nil, err
		}
	}
	if e.config.Init {
		if s.init, err = sandboxinit.Locate(); err != nil {
			return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
		}
		if e.config.Filter != nil {
			if s.filter, err = e.config.Filter(&s.spec); err != nil {
				return nil, err
			}
		}
	}
	if e.config.Attach != nil {
		attached, err := e.config.Attach(ctx, &s.spec)
		if err != nil {
			return nil, err
		}
		s.attached = *attached
	}
	if spec.Session.Processes {
		if s.kept, err = e.keep(&s.spec); err != nil {
			s.detach()
			return nil, err
		}
	}
	return s, nil
}

// admit refuses what the engine cannot hold. A host does so too; the engine
// does not depend on it.
func admit(info *shared.Info, spec *shared.Spec) error {
	if !spec.Unconfined && info.Features.Has(shared.FeatureUnconfined) {
		return &shared.Error{
			Kind: shared.ErrUnsupported, Attribute: "engine",
			Message: fmt.Sprintf("engine %q runs commands without any isolation and was asked to isolate", info.Name),
			Hint:    "use an engine that isolates, or have the host's policy allow commands without isolation",
		}
	}
	if err := shared.Refused(info.Name, spec.Without(info.Features)); err != nil {
		return err
	}
	takesOptions := len(info.Options.Attributes)+len(info.Options.Blocks) > 0
	if o := bytes.TrimSpace(spec.Options); !takesOptions && len(o) > 0 && string(o) != "{}" && string(o) != "null" {
		return &shared.Error{
			Kind: shared.ErrUnsupported, Attribute: "config",
			Message: fmt.Sprintf("engine %q has no options", info.Name),
		}
	}
	return admitOptions(info, spec.Options)
}

// clone keeps the caller, and an Open that normalises, out of each other's way.
func clone(spec shared.Spec) shared.Spec {
	spec.Table = slices.Clone(spec.Table)
	spec.Deny = slices.Clone(spec.Deny)
	spec.Protect = slices.Clone(spec.Protect)
	spec.Options = slices.Clone(spec.Options)
	if spec.User != nil {
		u := *spec.User
		u.Groups = slices.Clone(u.Groups)
		spec.User = &u
	}
	return spec
}
