//go:build unix

package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// lockPatience is how long a writer waits for others. Each needs microseconds, but on a busy
// machine the holder of the lock may wait long for a CPU. Tests have many writers.
var lockPatience = 15 * time.Second

func (l *Log) append(r Record) error {
	// It follows no symlink, also on the way, and does not wait for the reader of a fifo: a command could
	// have put either there to redirect the log.
	fd, err := hostpath.OpenOrMake(l.path, unix.O_RDWR|unix.O_APPEND|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if errors.Is(err, unix.ELOOP) {
		return fmt.Errorf("%s is a symlink or behind one, which is not followed: name the file that it leads to", l.path)
	} else if err != nil {
		return hostpath.OpenError(l.path, err)
	}
	f := os.NewFile(uintptr(fd), l.path)
	defer f.Close() // this also gives up the lock
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: l.path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file", l.path)
	}
	if err := l.refuseStranger(&st); err != nil {
		return err
	}
	if err := lock(f); err != nil {
		return err
	}
	if err := write(f, r); err != nil {
		return err
	}
	unix.Flock(int(f.Fd()), unix.LOCK_UN) // others need not wait for the disk
	if err := l.sync(f); !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil // a file system without a disk
}

// write appends the record to the file. The caller holds the file's lock.
func write(f *os.File, r Record) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if r.Time.IsZero() {
		r.Time = time.Now() // under the lock, so that times are in order
	}
	line := r.Line()
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' { // a writer was killed within a line
			line = append([]byte("\n"), line...)
		}
	}
	n, err := f.Write(line)
	if err != nil && n > 0 {
		// Half a line could state something false.
		err = errors.Join(err, f.Truncate(size))
	}
	return err
}

// refuseStranger refuses a stranger's file: the stranger could have put it into a directory that
// everybody can write to, in order to read and change the log. It accepts a file of the
// administrator and of the directory's owner, and a file that the administrator has made for
// another account, such as one that ships the log.
func (l *Log) refuseStranger(st *unix.Stat_t) error {
	if int(st.Uid) == os.Geteuid() || st.Uid == 0 {
		return nil
	}
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(l.path), &dir); err != nil {
		return &fs.PathError{Op: "stat", Path: filepath.Dir(l.path), Err: err}
	}
	// Only root or this user could have put it here.
	ours := (dir.Uid == 0 || int(dir.Uid) == os.Geteuid()) && dir.Mode&0o022 == 0
	if dir.Uid != st.Uid && !ours {
		return fmt.Errorf("%s belongs to user %d, not to you (%d), and its directory does not: log to a directory of your own", l.path, st.Uid, os.Geteuid())
	}
	return nil
}

func lock(f *os.File) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	switch err := hostpath.Lock(ctx, int(f.Fd()), unix.LOCK_EX); {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s: another process holds the lock for longer than %v", f.Name(), lockPatience)
	default:
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}
