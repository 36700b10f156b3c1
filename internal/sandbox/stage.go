//go:build unix

package sandbox

import (
	"context"
	"fmt"
	"sync/atomic"
)

// stageKey is the key of what SetStage tells in a context.
type stageKey struct{}

// WithStage has stage hold, as a string, what SetStage is told.
func WithStage(ctx context.Context, stage *atomic.Value) context.Context {
	return context.WithValue(ctx, stageKey{}, stage)
}

// SetStage says what the start of a command is at, for the error of one whose time is over.
func SetStage(ctx context.Context, stage string, a ...any) {
	if v, ok := ctx.Value(stageKey{}).(*atomic.Value); ok {
		v.Store(fmt.Sprintf(stage, a...))
	}
}
