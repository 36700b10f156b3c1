package cmdengine

import (
	"context"

	"github.com/sbxhost/sbxhost/shared"
)

// Unsupported makes an engine for systems on which it cannot work, for this reason.
func Unsupported(info shared.Info, reason string) shared.Engine { return unsupported{info, reason} }

type unsupported struct {
	info   shared.Info
	reason string
}

const elsewhereHint = "use an engine for this system"

func (e unsupported) Info(context.Context) (shared.Info, error) { return e.info, nil }

func (e unsupported) Probe(context.Context) (shared.Probe, error) {
	return shared.Probe{Reason: e.reason, Fix: elsewhereHint, Unusable: true}, nil
}

func (e unsupported) Open(_ context.Context, spec shared.Spec) (shared.Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return nil, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: e.reason, Hint: elsewhereHint}
}
