//go:build unix

package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

// lockPatience is how long a writer waits for the others. Each needs microseconds,
// but on a busy machine one that has the lock may wait long for a CPU. Tests have many.
var lockPatience = 15 * time.Second

func (l *Log) append(r Record) error {
	for {
		f, size, err := l.openLocked()
		if err != nil {
			return err
		}
		rotated, err := l.appendTo(f, size, r)
		if !rotated && err == nil {
			unix.Flock(int(f.Fd()), unix.LOCK_UN) // others need not wait for the disk
			if err = l.sync(f); errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
				err = nil // a file system without a disk
			}
		}
		f.Close() // which gives up the lock
		if !rotated {
			return err
		}
	}
}

// appendTo writes the record to the file, of which the caller holds the lock. It
// is not written if there was no room for it, and the file was rotated.
func (l *Log) appendTo(f *os.File, size int64, r Record) (rotated bool, err error) {
	if size, err = l.repair(f, size); err != nil {
		return false, err
	}
	if r.Time.IsZero() {
		r.Time = time.Now() // while nobody else writes, so that times are in order
	}
	line := r.line()
	if size > 0 && size+int64(len(line)) > l.maxSize {
		if rotated, err := l.rotate(f, size); rotated || err != nil {
			return rotated, err
		}
	}
	n, err := f.Write(line)
	if err == nil && n == len(line) {
		return false, nil
	}
	// Half a line would say something else than what is so.
	if n > 0 {
		err = errors.Join(err, undo(f, n))
	}
	return false, err
}

// undo removes the last n bytes.
func undo(f *os.File, n int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Truncate(info.Size() - int64(n))
}

// openLocked opens the file with the lock held, and gives its size. A file
// that was rotated while we waited is not the log any more.
func (l *Log) openLocked() (*os.File, int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	for {
		f, err := l.open(0)
		if errors.Is(err, fs.ErrNotExist) {
			if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
				return nil, 0, err
			}
			f, err = l.open(os.O_CREATE)
		}
		if errors.Is(err, unix.ELOOP) {
			err = fmt.Errorf("%s is a symlink, which is not followed: name the file that it leads to", l.path)
		}
		if err != nil {
			return nil, 0, err
		}
		if err := lock(ctx, f); err != nil {
			f.Close()
			return nil, 0, err
		}
		var ours, named unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &ours)
		if err == nil && ours.Mode&unix.S_IFMT != unix.S_IFREG {
			err = fmt.Errorf("%s is not a regular file", l.path)
		}
		if err == nil {
			err = l.planted(&ours)
		}
		if err != nil {
			f.Close()
			return nil, 0, err
		}
		err = unix.Lstat(l.path, &named)
		if err == nil && named.Dev == ours.Dev && named.Ino == ours.Ino {
			return f, ours.Size, nil
		}
		f.Close()
		if err != nil && err != unix.ENOENT {
			return nil, 0, &fs.PathError{Op: "stat", Path: l.path, Err: err}
		}
	}
}

// planted refuses the file of a stranger, who could have put it into a directory
// that is everybody's, to read the log and to change it. The administrator's, and
// that of whose directory it is, are theirs to give; so is what an administrator
// has made for others, such as the account that ships the log.
func (l *Log) planted(st *unix.Stat_t) error {
	if int(st.Uid) == os.Geteuid() || st.Uid == 0 {
		return nil
	}
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(l.path), &dir); err != nil {
		return &fs.PathError{Op: "stat", Path: filepath.Dir(l.path), Err: err}
	}
	// Where nobody but root or us could have put it, it was meant.
	ours := (dir.Uid == 0 || int(dir.Uid) == os.Geteuid()) && dir.Mode&0o022 == 0
	if dir.Uid != st.Uid && !ours {
		return fmt.Errorf("%s belongs to user %d, not to you (%d), and its directory does not: log to a directory of your own", l.path, st.Uid, os.Geteuid())
	}
	return nil
}

// open never follows a symlink at the file's place, nor waits for the reader of
// a fifo: each could have been put there to lead the log elsewhere.
func (l *Log) open(flags int) (*os.File, error) {
	return os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, 0o600)
}

func lock(ctx context.Context, f *os.File) error {
	switch err := hostpath.Lock(ctx, int(f.Fd()), unix.LOCK_EX); {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s: another process holds the lock for longer than %v", f.Name(), lockPatience)
	default:
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

// repair removes what is left of a line at the end of the file, and gives the
// size that is whole.
func (l *Log) repair(f *os.File, size int64) (int64, error) {
	if size == 0 {
		return 0, nil
	}
	buf := make([]byte, 1, 4096)
	if _, err := f.ReadAt(buf, size-1); err != nil {
		return 0, err
	}
	if buf[0] == '\n' {
		return size, nil
	}
	whole := int64(0)
	for end := size; end > 0; {
		start := max(0, end-4096)
		buf = buf[:end-start]
		if _, err := f.ReadAt(buf, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
			whole = start + int64(i) + 1
			break
		}
		end = start
	}
	err := f.Truncate(whole)
	if errors.Is(err, unix.EPERM) { // append-only
		if _, err := f.Write([]byte("\n")); err != nil {
			return 0, err
		}
		return size + 1, nil
	}
	return whole, err
}

// rotate moves the file, of which the caller holds the lock, out of the way.
// The file itself goes last: once it is gone, another process may make the new
// one, and come to rotate that. A file that is append-only, or in a directory
// that is not ours to change, stays and grows.
func (l *Log) rotate(f *os.File, size int64) (bool, error) {
	if err := f.Truncate(size); errors.Is(err, unix.EPERM) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	numbered := func(n int) string { return l.path + "." + strconv.Itoa(n) }
	for n := l.keep; n >= 1; n-- {
		from := l.path
		if n > 1 {
			from = numbered(n - 1)
		}
		switch err := os.Rename(from, numbered(n)); {
		case errors.Is(err, fs.ErrPermission):
			return false, nil
		case err != nil && (n == 1 || !errors.Is(err, fs.ErrNotExist)):
			return false, err
		}
	}
	return true, nil
}
