package docker

import (
	"context"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// progress tells what a long preparation is at.
func (b *box) progress(ctx context.Context, message string) {
	shared.Progress(ctx, shared.Event{Kind: shared.EventProgress, Time: time.Now(), Message: message})
}
