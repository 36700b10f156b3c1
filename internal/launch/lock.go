package launch

import "context"

// Lock is a mutex whose waiters can give up: its holder may hang.
type Lock chan struct{}

// NewLock makes one that nobody holds.
func NewLock() Lock { return make(Lock, 1) }

// Acquire waits until nobody else holds the lock. One that is free it gets, ctx ended or not.
func (l Lock) Acquire(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release gives it up.
func (l Lock) Release() { <-l }
