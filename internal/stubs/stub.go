package stubs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// A Stub is a path to hold: an empty directory, or a file with harmless content.
type Stub struct {
	Path    string // absolute, clean, no symlinks
	File    bool
	Content string // of a file
	InStub  bool   // only in a directory that is a stub, for which Hold was asked before
}

// maxContent is longer than the content of any stub.
const maxContent = 64

// heldStub is a stub that this process has claimed.
type heldStub struct {
	Stub
	holds    int
	fd       int // of the stub, with a shared lock
	dir      int // of its directory, which may be moved meanwhile
	dev, ino uint64
}

func newHeldStub(s Stub, fd int, st *unix.Stat_t) *heldStub {
	return &heldStub{Stub: s, fd: fd, dev: uint64(st.Dev), ino: st.Ino}
}

// liesAt reports whether the stub is at a name.
func (m *heldStub) liesAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && m.ino == st.Ino && m.dev == uint64(st.Dev)
}

// The marks of a stub: a directory's sticky bit, which has no use unless everybody can write to the
// directory; and a file's modification time, a moment in 1976 in whole seconds, which every file
// system keeps. A directory's modification time is no mark, because each stub that comes and goes
// in it changes it.
const (
	markMode = unix.S_ISVTX | 0o755
	markTime = 0x0b5b0517
	fileMode = 0o644
)

// marked reports whether a file or directory looks like a stub. A file must be unwritten. The umask
// decides a directory's other bits until finish.
func marked(st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return st.Mode&(unix.S_ISVTX|0o022) == unix.S_ISVTX
	case unix.S_IFREG:
		return st.Mtim.Sec == markTime && st.Mtim.Nsec == 0 && st.Size <= maxContent
	}
	return false
}

// Is reports whether a path looks like a stub.
func Is(path string) bool {
	st, _ := hostpath.Lstat(path)
	return marked(&st)
}

// fresh reports whether this can be a file that a process is still making, without its mark. A
// claim opens the file for writing, and the kernel executes no file that is open for writing: so it
// is not a hook in use.
func fresh(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 == 0 && st.Size <= maxContent &&
		time.Since(time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec))).Abs() < time.Minute
}

// create makes a stub in its directory, and claims it. The error is EEXIST if somebody was faster.
func create(ctx context.Context, s Stub, dir int) (*heldStub, error) {
	if s.File {
		fd, err := createFile(dir, filepath.Base(s.Path), s.Content)
		if err != nil {
			return nil, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			hostpath.Unlock(fd)
			return nil, err
		}
		return newHeldStub(s, fd, &st), nil
	}
	// The new stub must be opened to be claimed. Find a shortage of descriptors before it exists.
	spare, err := hostpath.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mkdirat(dir, filepath.Base(s.Path), markMode)
		unix.Close(spare)
	}
	if err != nil {
		return nil, err
	}
	one, err := claim(ctx, s, dir)
	if errors.Is(err, errNoLocks) { // nobody else can have a claim either
		unix.Unlinkat(dir, filepath.Base(s.Path), unix.AT_REMOVEDIR)
	} else if err == nil {
		finish(dir, one.fd, unix.S_IFDIR)
	}
	return one, err
}

// finish makes a stub that other users can claim, whatever the umask is, and marks a file. If root
// makes a stub in a user's directory, the user owns it: it may stay because somebody put something
// into it.
func finish(dir, fd int, kind uint32) {
	var st, parent unix.Stat_t
	if unix.Fstat(fd, &st) != nil || uint32(st.Mode)&unix.S_IFMT != kind || int(st.Uid) != os.Geteuid() || kind == unix.S_IFDIR && !emptyDir(fd) {
		return // somebody replaced it, or owners mean nothing there
	}
	if unix.Fstat(dir, &parent) == nil && os.Geteuid() == 0 && parent.Uid != 0 {
		unix.Fchown(fd, int(parent.Uid), int(parent.Gid))
	}
	if kind == unix.S_IFDIR {
		unix.Fchmod(fd, markMode)
		return
	}
	unix.Fchmod(fd, fileMode)
	unix.Futimes(fd, []unix.Timeval{{Sec: markTime}, {Sec: markTime}})
}

// fill gives a new private file its content, a claim and the mark.
func fill(dir, fd int, content string) error {
	// Claim before the mark: anybody may remove a file with the mark and without a claim.
	if err := hostpath.TryLock(fd, unix.LOCK_SH); err != nil {
		return lockError(err)
	}
	if _, err := unix.Write(fd, []byte(content)); err != nil {
		return err
	}
	finish(dir, fd, unix.S_IFREG)
	return nil
}

// createNamed creates a file under its name; the name exists before the content.
func createNamed(dir int, name, content string) (fd int, err error) {
	fd, err = hostpath.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return -1, err
	}
	if err := fill(dir, fd, content); err != nil {
		unix.Close(fd)
		unix.Unlinkat(dir, name, 0)
		return -1, err
	}
	return fd, nil
}

func emptyDir(fd int) bool {
	entries, err := list(fd, 0)
	return err == nil && len(entries) == 0
}

// pathHoldsWork reports whether a directory contains something other than stubs. A removed directory was a
// stub.
func pathHoldsWork(path string) bool {
	fd, err := hostpath.OpenNoSymlinks(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return holdsWork(fd)
}

// holdsWork reports whether an open directory contains something other than stubs. A killed process
// loses its claims one by one: the claim to a directory may be gone before the claims to its
// content.
func holdsWork(fd int) bool {
	entries, _ := list(fd, math.MaxInt)
	return slices.ContainsFunc(entries, func(e hostpath.Entry) bool {
		var st unix.Stat_t
		return unix.Fstatat(fd, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && !marked(&st)
	})
}

// list returns the entries of a directory that is open for reading, and stops soon after limit.
func list(fd, limit int) ([]hostpath.Entry, error) {
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return nil, err
	}
	return hostpath.Entries(nil, fd, limit)
}

// claim opens the file at a stub's path, in its directory, and shares a lock on it with all processes
// that need it there. The returned stub is still there after the lock: otherwise its last holder may
// have removed it at that moment, and the error is ENOENT.
func claim(ctx context.Context, s Stub, dir int) (*heldStub, error) {
	name := filepath.Base(s.Path)
	fd, err := -1, error(unix.EISDIR)
	if s.File { // NFS locks no file exclusively that is open for reading alone
		fd, err = hostpath.Openat(dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		fd, err = openAt(dir, name)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR { // whichever kind s asks for
			s.File, s.Content = false, ""
		}
		err = lockError(lockWithin(ctx, fd, unix.LOCK_SH, claimPatience))
	}
	one := newHeldStub(s, fd, &st)
	if err == nil && !one.liesAt(dir, name) {
		err = unix.ENOENT
	}
	if err != nil {
		hostpath.Unlock(fd)
		return nil, err
	}
	return one, nil
}

// claimPatience is how long to wait for a process that removes a stub, which takes microseconds. A
// command can lock forever every file that it sees.
const claimPatience = 2 * time.Second

// lockWithin locks a file, and waits at most limit for others: a stopped or hostile process must
// not stop everybody.
func lockWithin(ctx context.Context, fd, how int, limit time.Duration) error {
	// First try without a timer: a timer costs time, and the first one of a process costs a
	// descriptor.
	if err := hostpath.TryLock(fd, how); err != unix.EWOULDBLOCK {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("another process has had it locked for %v", limit))
	defer cancel()
	return hostpath.Lock(ctx, fd, how)
}

// errNoLocks says that a file system has no locks.
var errNoLocks = errors.New("files cannot be locked there")

func lockError(err error) error {
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	return fmt.Errorf("%w: %w", errNoLocks, err)
}

// openDir opens a directory without following any symlink: a command could have put one there so that
// the host creates something elsewhere.
func openDir(path string) (int, error) {
	return hostpath.OpenNoSymlinks(path, hostpath.LookFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// openAt opens a file or a directory. It follows no symlink and never waits: the file may have
// become a fifo.
func openAt(dir int, name string) (int, error) {
	return hostpath.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

// close gives up the claim.
func (m *heldStub) close() {
	hostpath.Unlock(m.fd)
	unix.Close(m.dir)
}

// remove gives up the claim, and removes the stub if nobody else has a claim and it is still a stub.
func (m *heldStub) remove() {
	defer m.close()
	// Give up the old lock first: except on Linux, a failed lock keeps the old one.
	if _ = unix.Flock(m.fd, unix.LOCK_UN); hostpath.TryLock(m.fd, unix.LOCK_EX) != nil {
		return // another process has a claim, and removes it
	}
	var st unix.Stat_t
	if unix.Fstat(m.fd, &st) != nil || !marked(&st) || !m.untouched(&st) {
		return
	}
	name := filepath.Base(m.Path)
	if !m.liesAt(m.dir, name) { // check last: somebody may have just saved a file there
		return
	}
	if m.File {
		unix.Unlinkat(m.dir, name, 0)
	} else if unix.Unlinkat(m.dir, name, unix.AT_REMOVEDIR) != nil && holdsWork(m.fd) {
		unix.Fchmod(m.fd, uint32(st.Mode)&0o7777&^unix.S_ISVTX) // it is no longer a stub
	}
}

// untouched reports whether the stub has the right type, and a file its content and one name. The
// removal itself finds out whether a directory is empty.
func (m *heldStub) untouched(st *unix.Stat_t) bool {
	if !m.File {
		return st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || st.Size != int64(len(m.Content)) {
		return false
	}
	text := make([]byte, len(m.Content)+1)
	n, err := unix.Pread(m.fd, text, 0)
	return err == nil && string(text[:n]) == m.Content
}
