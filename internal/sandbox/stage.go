//go:build unix

package sandbox

import (
	"context"
	"fmt"
	"sync/atomic"
)

// stageKey is the context key of SetStage's variable.
type stageKey struct{}

// WithStage makes SetStage store its text in stage.
func WithStage(ctx context.Context, stage *atomic.Value) context.Context {
	return context.WithValue(ctx, stageKey{}, stage)
}

// SetStage records the current step of a command's start, for the error of one that times out.
func SetStage(ctx context.Context, stage string, a ...any) {
	if v, ok := ctx.Value(stageKey{}).(*atomic.Value); ok {
		v.Store(fmt.Sprintf(stage, a...))
	}
}
