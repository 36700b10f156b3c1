package shared

import "context"

type progressKey struct{}

// WithProgress makes [Engine.Open] report its progress, such as an image pull; the events of a
// [Process] would come too late. One goroutine at a time calls report, which must not block.
func WithProgress(ctx context.Context, report func(Event)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress is for an engine's [Engine.Open]: it reports progress to the context's receiver, from
// one goroutine at a time. Without a receiver it does nothing.
func Progress(ctx context.Context, e Event) {
	if report, ok := ctx.Value(progressKey{}).(func(Event)); ok {
		report(e)
	}
}
