package shared

import "context"

type progressKey struct{}

// WithProgress has [Engine.Open] tell report what it is at, such as the fetching
// of an image: the events of a [Process] come too late for that. report is
// called from one goroutine at a time, and must not make its caller wait.
func WithProgress(ctx context.Context, report func(Event)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress is how an engine's [Engine.Open] tells what it is at, with the context that it
// was given and from one goroutine at a time. It does nothing where nobody asked.
func Progress(ctx context.Context, e Event) {
	if report, ok := ctx.Value(progressKey{}).(func(Event)); ok {
		report(e)
	}
}
