package stubs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

// claim opens what lies at p and locks it together with all others who need it
// there. The descriptor is of what still lies at p once it is locked: the last
// one who needed it may have been removing it at that moment.
func claim(p string) (fd int, st unix.Stat_t, err error) {
	dir, err := openDir(filepath.Dir(p))
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(dir)
	const often = 100 // others come and go; nobody does so for ever
	for range often {
		if fd, err = openAt(dir, filepath.Base(p)); err != nil {
			return -1, st, err
		}
		if err = unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return -1, st, err
		}
		if err = lockWithin(context.Background(), fd, unix.LOCK_SH, claimPatience); errors.Is(err, unix.EWOULDBLOCK) {
			unix.Close(fd)
			return -1, st, err
		} else if err != nil {
			unix.Close(fd)
			return -1, st, fmt.Errorf("%w: %w", errNoLocks, err)
		}
		var now unix.Stat_t
		err = unix.Fstatat(dir, filepath.Base(p), &now, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && now.Ino == st.Ino && now.Dev == st.Dev {
			return fd, now, nil
		}
		unclaim(fd)
		if err != nil {
			return -1, st, err
		}
	}
	return -1, st, fmt.Errorf("%s is replaced again and again", p)
}

// claimPatience is how long whoever removes a stub, which takes microseconds, is
// waited for. A command can lock for ever what it sees.
const claimPatience = 2 * time.Second

// errNoLocks says that a file system cannot lock what is on it.
var errNoLocks = errors.New("files cannot be locked there")

// openDir opens a directory without following any symlink.
func openDir(path string) (int, error) {
	return hostpath.OpenNoSymlinks(path, hostpath.LookFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// openAt opens a file or a directory, neither through a symlink nor waiting for
// anybody: it may be a fifo by now.
func openAt(dir int, name string) (int, error) {
	return hostpath.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

// unclaim gives a claim up; negative is none.
func unclaim(fd int) {
	if fd >= 0 {
		hostpath.Unlock(fd)
	}
}

// lockWithin locks what others have locked for no longer than they need: one that
// is stopped in the middle, or that means harm, must not stop all.
func lockWithin(ctx context.Context, fd, how int, limit time.Duration) error {
	// Without a timer, mostly: it costs time, and the first one of a process a descriptor.
	if err := hostpath.TryLock(fd, how); err != unix.EWOULDBLOCK {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("another process has had it locked for %v", limit))
	defer cancel()
	return hostpath.Lock(ctx, fd, how)
}

// The marks of a stub: a directory's mode, whose sticky bit an ordinary one has
// no use for, and a file's last change, a moment in 1976 that nothing else was
// last changed in - in whole seconds, which every file system keeps. That of a
// directory would not do: it goes with each stub that comes and goes beneath.
const (
	markMode = unix.S_ISVTX | plainMode
	markTime = 0x0b5b0517

	plainMode = 0o755
	fileMode  = 0o644
)

// marked reports whether something is a stub, and a file one that nobody has
// written to.
func marked(st *unix.Stat_t) bool {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return st.Mode&0o7777 == markMode
	}
	return st.Mtim.Sec == markTime && st.Mtim.Nsec == 0
}

// mark marks a claimed stub of the caller's, and makes it one that other users
// can claim, whatever the umask is.
func mark(fd int, dir bool) {
	if dir {
		unix.Fchmod(fd, markMode)
		return
	}
	unix.Fchmod(fd, fileMode)
	unix.Futimes(fd, []unix.Timeval{{Sec: markTime}, {Sec: markTime}})
}
