//go:build unix

package hostpath

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// lockRetry is how often a lock that somebody holds is tried again.
const lockRetry = time.Millisecond

// Lock locks an open file by flock(2) and waits for its holders until ctx ends. Then
// its error wraps EWOULDBLOCK. The kernel is never asked to wait: who has the lock may
// be stopped, or mean harm.
func Lock(ctx context.Context, fd, how int) error {
	err := TryLock(fd, how)
	if err != unix.EWOULDBLOCK {
		return err
	}
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for ; err == unix.EWOULDBLOCK; err = TryLock(fd, how) {
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
	return err
}

// TryLock is Lock that does not wait.
func TryLock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// Unlock gives up a lock at once, and closes the file. To close it is not enough: a
// process that another goroutine is starting has a copy of the descriptor until it
// executes its program.
func Unlock(fd int) {
	_ = unix.Flock(fd, unix.LOCK_UN) // else the close does it
	unix.Close(fd)
}
