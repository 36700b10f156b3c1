package cmdengine

import (
	"context"

	"github.com/sbxhost/sbxhost/shared"
)

// Unsupported makes an engine for systems on which it cannot work, for this reason.
func Unsupported(info shared.Info, reason string) shared.Engine {
	const hint = "use an engine for this system"
	return New(Config{
		Info: info,
		Probe: func(context.Context) (shared.Probe, error) {
			return shared.Probe{Reason: reason, Fix: hint, Unusable: true}, nil
		},
		Attach: func(context.Context, *shared.Spec) (*Attachment, error) {
			return nil, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: reason, Hint: hint}
		},
	})
}
