package docker

import (
	"context"

	"github.com/sbxhost/sbxhost/shared"
)

func (b *box) imageOfService(_ context.Context, _ *shared.Spec) error {
	return optionError("compose", "wip")
}
