//go:build unix

package sessiondir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// How a session directory stays alive, and why no sweep can remove a live one:
//
// Each has a file "lock". Its owner holds a flock on that - exclusive if the session is
// unnamed, shared if it has a name - until it closes or dies. Whoever wants to remove
// the directory must hold that lock exclusively, then check that the path still names
// the file that it locked, and only then rename the directory away. Whoever makes one
// locks and checks likewise. So between mkdir and flock a new directory may be swept,
// but then its maker finds the path gone or another file there and starts again; once
// the check has passed, nobody else can get the lock, and without it nobody renames.
// There is no lock above the directories that a stopped process could sit on.

const (
	lockFile      = "lock"
	ownedDir      = "s" // what is the owner's, where that is not this process's user
	unnamedPrefix = "u-"
	namedPrefix   = "n-"
	deadPrefix    = ".dead-" // renamed away by a sweep, to be deleted by anyone
	makeAttempts  = 128
)

// namedMaxAge is how long the directory of a named session outlives its last use.
const namedMaxAge = 7 * 24 * time.Hour

// Dir is the private directory of one session: scratch, sockets, overlay
// state. Nothing is made before the first use. It is safe for concurrent use.
type Dir struct {
	base  string
	name  string // "" is unnamed
	owner *User  // nil: this process's user

	mutex  chan struct{} // guards what follows; who waits for it can give up
	dir    string        // holds the lock; this process's
	usable string        // what Path gives
	lock   *os.File
	closed bool
}

// Options say where a session directory is and whether it has a name.
type Options struct {
	// Base is the absolute directory that holds session directories; see UserBase.
	Base string
	// Name makes it one that several processes may share at once and
	// that the next one finds again. Letters, digits, ".", "_" and "-", at most
	// 64, the first a letter or digit. Empty: private to this Dir.
	Name string
	// Owner is the user that what Path and Sub give is made for, where that is
	// not the process's own: root alone can do so, see SystemBase. Its
	// lock stays out of that user's reach, and so do the names that root
	// renames and removes by: a link of the user's would else lead root astray.
	Owner *User
}

// User is a user of the host.
type User struct{ UID, GID uint32 }

// New returns a Dir. It checks the options and touches nothing.
func New(o Options) (*Dir, error) {
	if o.Name != "" {
		if err := CheckName(o.Name); err != nil {
			return nil, err
		}
	}
	base, err := resolveBase(o.Base)
	if err != nil {
		return nil, err
	}
	return &Dir{base: base, name: o.Name, owner: o.Owner, mutex: make(chan struct{}, 1)}, nil
}

// resolveBase resolves what exists of base, as of a ~/.cache that is a link to
// another disk: what is mounted in a session directory is opened without following links.
func resolveBase(base string) (string, error) {
	if !filepath.IsAbs(base) || strings.ContainsRune(base, 0) {
		return "", fmt.Errorf("base: %q: %w", base, errBase)
	}
	base = filepath.Clean(base)
	for dir := filepath.Dir(base); ; dir = filepath.Dir(dir) {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(resolved, strings.TrimPrefix(base, dir)), nil
		} else if dir == "/" {
			return base, nil
		}
	}
}

// CheckName refuses, with ErrName, what is no name of a session.
func CheckName(name string) error {
	if !paths.IsName(name) {
		return fmt.Errorf("session %.80q: use 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit: %w", name, ErrName)
	}
	return nil
}

// Name returns the session's name, or "".
func (d *Dir) Name() string { return d.name }

// Path returns the directory's path, making it (mode 0700, the owner's) and taking
// its lock on the first call. It waits for neither longer than ctx. It is ErrClosed
// after Close.
func (d *Dir) Path(ctx context.Context) (string, error) {
	if err := d.enter(ctx); err != nil {
		return "", err
	}
	defer d.leave()
	return d.open(ctx)
}

func (d *Dir) enter(ctx context.Context) error {
	select {
	case d.mutex <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("session directory: %w", context.Cause(ctx))
	}
}

func (d *Dir) leave() { <-d.mutex }

// Sub returns the path of a directory that belongs to the session directory, made 0700
// and the owner's if need be. name is one plain component.
func (d *Dir) Sub(ctx context.Context, name string) (string, error) {
	if err := CheckName(name); err != nil || slices.Contains([]string{lockFile, recordFile, ownedDir}, name) {
		return "", fmt.Errorf("session directory %.80q: %w", name, ErrName)
	}
	if err := d.enter(ctx); err != nil {
		return "", err
	}
	defer d.leave()
	if _, err := d.open(ctx); err != nil {
		return "", err
	}
	return d.sub(name)
}

func (d *Dir) sub(name string) (string, error) {
	sub := filepath.Join(d.dir, name)
	if err := os.Mkdir(sub, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	fi, err := os.Lstat(sub)
	if err != nil {
		return "", err
	}
	if !fi.IsDir() {
		return "", &fs.PathError{Op: "mkdir", Path: sub, Err: syscall.ENOTDIR}
	}
	if d.owner != nil && fi.Sys().(*syscall.Stat_t).Uid != d.owner.UID {
		// By its path: the directory that it lies in is ours alone.
		if err := os.Lchown(sub, int(d.owner.UID), int(d.owner.GID)); err != nil {
			return "", fmt.Errorf("session directory: %w", err)
		}
	}
	return sub, nil
}

func (d *Dir) open(ctx context.Context) (string, error) {
	switch {
	case d.closed:
		return "", fmt.Errorf("session directory: %w", ErrClosed)
	case d.usable != "":
		return d.usable, nil
	case d.dir == "":
		if err := d.make(ctx); err != nil {
			return "", err
		}
	}
	if d.owner == nil {
		d.usable = d.dir
		return d.dir, nil
	}
	sub, err := d.sub(ownedDir)
	d.usable = sub
	return sub, err
}

// make makes the session directory, or joins the named one that there is. Others sweep and
// remove meanwhile.
func (d *Dir) make(ctx context.Context) error {
	mode := fs.FileMode(0o700)
	if d.owner != nil {
		mode = 0o711 // to pass through, not to look around
	}
	if err := private(hostpath.MakePrivate(d.base, mode)); err != nil {
		return err
	}
	for range makeAttempts {
		if err := d.attempt(ctx, mode); !errors.Is(err, errLost) {
			return err
		}
	}
	return fmt.Errorf("session directory: swept %d times while being made in %q: %w", makeAttempts, d.base, syscall.EBUSY)
}

// attempt is make, or errLost where somebody else has the name or has swept the directory.
func (d *Dir) attempt(ctx context.Context, mode fs.FileMode) error {
	id := unnamedPrefix + rand.Text()[:12] // 60 bits; short, for socket paths
	if d.name != "" {
		id = namedPrefix + d.name
	}
	dir := filepath.Join(d.base, id)
	err := os.Mkdir(dir, mode)
	exists := errors.Is(err, fs.ErrExist)
	switch {
	case exists && d.name == "":
		return errLost
	case err != nil && !exists:
		return fmt.Errorf("session directory: %w", err)
	case err == nil && mode != 0o700:
		err = os.Chmod(dir, mode) // whatever the umask is
	default:
		err = nil
	}
	if err == nil {
		err = checkPrivate(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errLost
	} else if err != nil {
		return err
	}
	var lock *os.File
	if d.name == "" {
		if lock, err = lockDir(hostpath.NoWait(), dir, unix.LOCK_EX); errors.Is(err, errHeld) {
			return errLost // by a sweep
		}
	} else if lock, err = lockDir(ctx, dir, unix.LOCK_SH); err == nil { // had by a sweep or a removal while it renames
		touch(lock)
	}
	if err == nil {
		d.dir, d.lock = dir, lock
	} else if !errors.Is(err, errHeld) && !errors.Is(err, errLost) {
		os.Remove(dir) // if it is empty: on a disk that is full there was no room for the lock
	}
	return err
}

// Close gives the session directory up. An unnamed one is removed with all it holds; a
// named one is left for the next process of that session, see Remove.
// Only the first call does anything; using the session directory afterwards is
// ErrClosed.
func (d *Dir) Close() error {
	d.mutex <- struct{}{}
	defer d.leave()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.lock == nil {
		return nil
	}
	if d.name != "" {
		touch(d.lock)
		release(d.lock)
		return nil
	}
	return discard(d.base, d.dir, d.lock)
}

// errLost: the directory is no longer the one that was locked.
var errLost = errors.New("lost to another process")

// errHeld: somebody holds the lock of a named session directory exclusively, for longer than
// we can wait.
var errHeld = errors.New("another process holds its lock")

// lockDir takes the lock of the session directory dir. It is errHeld where another process has
// the lock until wait ends.
func lockDir(wait context.Context, dir string, how int) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	fd, err := hostpath.LockAt(wait, unix.AT_FDCWD, path, how)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errLost
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, fmt.Errorf("session directory: %w: %w", errHeld, err)
	case err != nil:
		return nil, fmt.Errorf("session directory: %w", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// release gives the lock up.
func release(lock *os.File) {
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) // see hostpath.Unlock
	lock.Close()
}

// touch records a use of a named session. Its failure only shortens its life.
func touch(lock *os.File) {
	now := unix.NsecToTimeval(time.Now().UnixNano())
	_ = unix.Futimes(int(lock.Fd()), []unix.Timeval{now, now})
}

// discard renames away the session directory whose lock is held exclusively, lets go of
// the lock, and deletes what was renamed. Deleting may take long; another
// process that wants the name need not wait for it.
func discard(base, dir string, lock *os.File) error {
	dead := deadPrefix + rand.Text()
	err := os.Rename(dir, filepath.Join(base, dead))
	release(lock)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by hand
	}
	if err != nil {
		return fmt.Errorf("session directory: %w", err)
	}
	if err := RemoveTree(context.Background(), base, dead); err != nil {
		return fmt.Errorf("session directory: remove what was %q: %w", dir, err)
	}
	return nil
}
