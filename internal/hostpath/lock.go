//go:build unix

package hostpath

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// lockRetry is the time between two tries of a held lock.
const lockRetry = time.Millisecond

// Lock locks an open file by flock(2), and waits for other holders until ctx ends. Its error then
// wraps EWOULDBLOCK. It never makes the kernel wait: the holder may be stopped or hostile.
func Lock(ctx context.Context, fd, how int) error {
	for {
		err := TryLock(fd, how)
		if err != unix.EWOULDBLOCK {
			return err
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// TryLock is Lock without the wait.
func TryLock(fd, how int) error {
	return Retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
}

// NoWait returns a context for a Lock that does not wait.
func NoWait() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// LockAt opens a file, by its path or in an open directory, creates it if it is missing, and locks
// it as Lock does. The error is fs.ErrNotExist if the directory is gone, or if the path no longer
// names the locked file.
func LockAt(ctx context.Context, dir int, path string, how int) (fd int, err error) {
	fd, err = Openat(dir, path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, OpenError(path, err)
	}
	var held, named unix.Stat_t
	if err = Lock(ctx, fd, how); err == nil {
		err = unix.Fstat(fd, &held)
	}
	if err == nil && (unix.Fstatat(dir, path, &named, unix.AT_SYMLINK_NOFOLLOW) != nil || held.Ino != named.Ino || held.Dev != named.Dev) {
		err = fs.ErrNotExist
	}
	if err != nil {
		Unlock(fd)
		return -1, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return fd, nil
}

// Unlock gives up a lock at once, and closes the file. To close it is not enough: a process that
// another goroutine starts has a copy of the descriptor until it executes its program.
func Unlock(fd int) {
	_ = unix.Flock(fd, unix.LOCK_UN) // otherwise the close unlocks it
	unix.Close(fd)
}
