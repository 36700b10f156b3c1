//go:build !linux

package native

import (
	"context"

	"github.com/sbxhost/sbxhost/shared"
)

// New makes an engine that says why it cannot work here.
func New() shared.Engine { return elsewhere{} }

// elsewhere is the engine where there is no Linux: namespaces are Linux's own.
type elsewhere struct{}

const needsLinux = "namespaces need Linux"

func (elsewhere) Info(context.Context) (shared.Info, error) { return info, nil }

func (elsewhere) Probe(context.Context) (shared.Probe, error) {
	return shared.Probe{Reason: needsLinux, Fix: "use an engine for this system", Unusable: true}, nil
}

func (elsewhere) Open(_ context.Context, spec shared.Spec) (shared.Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return nil, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: needsLinux, Hint: "use an engine for this system"}
}
