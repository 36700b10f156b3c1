//go:build unix

package session

import (
	"context"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// An InUseError says that another process has a session or a review.
type InUseError = sessiondir.InUseError

// A Waiter lets commands wait while another process has their session or review. They call it after
// each try that failed, and end with its error; late says that this is not a matter of a moment.
type Waiter func(held *InUseError, late bool) error

type waiterKey struct{}

// WithWaiter gives the commands of a context a Waiter. Without one they fail.
func WithWaiter(ctx context.Context, w Waiter) context.Context {
	return context.WithValue(ctx, waiterKey{}, w)
}

// WaiterOf returns the Waiter of a context, or nil.
func WaiterOf(ctx context.Context) Waiter {
	w, _ := ctx.Value(waiterKey{}).(Waiter)
	return w
}
