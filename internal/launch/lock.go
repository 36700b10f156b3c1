package launch

import "context"

// Lock is a mutex whose waiters can give up: its holder may hang.
type Lock chan struct{}

func NewLock() Lock { return make(Lock, 1) }

// Acquire waits until nobody else holds the lock. It takes a free one even if ctx has ended.
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

func (l Lock) Release() { <-l }
