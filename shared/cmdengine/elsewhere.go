package cmdengine

import (
	"context"

	"github.com/sbxhost/sbxhost/shared"
)

// Elsewhere makes an engine for systems on which it cannot work, which the reason says.
func Elsewhere(info shared.Info, reason string) shared.Engine { return elsewhere{info, reason} }

type elsewhere struct {
	info   shared.Info
	reason string
}

const elsewhereHint = "use an engine for this system"

func (e elsewhere) Info(context.Context) (shared.Info, error) { return e.info, nil }

func (e elsewhere) Probe(context.Context) (shared.Probe, error) {
	return shared.Probe{Reason: e.reason, Fix: elsewhereHint, Unusable: true}, nil
}

func (e elsewhere) Open(_ context.Context, spec shared.Spec) (shared.Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return nil, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: e.reason, Hint: elsewhereHint}
}
