package workspace

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

	"github.com/sbxhost/sbxhost/hostpath"
)

// How an umbrella stays alive, and why no sweep can remove a live one:
//
// Every umbrella holds a file "lock". Its owner holds a flock on it - exclusive
// for an unnamed umbrella, shared for a named one - until it closes or dies.
// Whoever wants to remove an umbrella must hold that lock exclusively, then
// check that the path still names the file it locked, and only then rename the
// directory away. Whoever makes one locks likewise and checks likewise. So
// between mkdir and flock a new umbrella may be swept, but then its maker finds
// the path gone or another file there and starts again; once the check has
// passed, nobody else can get the lock, and without the lock nobody renames.
// There is no lock above the umbrellas that a stopped process could sit on.

const (
	lockFile      = "lock"
	ownedDir      = "s" // what is the owner's, where that is not this process's user
	unnamedPrefix = "u-"
	namedPrefix   = "n-"
	deadPrefix    = ".dead-" // renamed away by a sweep, to be deleted by anyone
	makeAttempts  = 128
)

// namedMaxAge is how long a named session's umbrella outlives its last use.
const namedMaxAge = 7 * 24 * time.Hour

// Umbrella is the private directory of one session: scratch, sockets, overlay
// state. Nothing is made before the first use. It is safe for concurrent use.
type Umbrella struct {
	base  string
	name  string // "" is unnamed
	owner *Owner // nil: this process's user

	mutex  chan struct{} // guards what follows; who waits for it can give up
	dir    string        // holds the lock; this process's
	usable string        // what Dir gives
	lock   *os.File
	rooms  map[string]measured
	closed bool
}

// UmbrellaOptions say where an umbrella is and whether it has a name.
type UmbrellaOptions struct {
	// Base is the absolute directory that holds umbrellas; see SessionsDir.
	Base string
	// Name makes the umbrella one that several processes may share at once and
	// that the next one finds again. Letters, digits, ".", "_" and "-", at most
	// 64, the first a letter or digit. Empty: private to this Umbrella.
	Name string
	// Owner is the user that what Dir and Sub give is made for, where that is
	// not the process's own: root alone can do so, see SystemSessionsDir. Its
	// lock stays out of that user's reach, and so do the names that root
	// renames and removes by: a link of the user's would else lead root astray.
	Owner *Owner
}

// Owner is a user of the host.
type Owner struct{ UID, GID uint32 }

// NewUmbrella returns an umbrella. It checks the options and touches nothing.
func NewUmbrella(o UmbrellaOptions) (*Umbrella, error) {
	if o.Name != "" {
		if err := checkSessionName(o.Name); err != nil {
			return nil, err
		}
	}
	base, err := umbrellaBase(o.Base)
	if err != nil {
		return nil, err
	}
	return &Umbrella{base: base, name: o.Name, owner: o.Owner, mutex: make(chan struct{}, 1)}, nil
}

// umbrellaBase resolves what exists of base, as of a ~/.cache that is a link to
// another disk: what is mounted in an umbrella is opened without following links.
func umbrellaBase(base string) (string, error) {
	if err := checkSpelling(base); err != nil {
		return "", fmt.Errorf("base: %w", err)
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("base: %q is not absolute: %w", base, ErrInvalidPath)
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

func checkSessionName(name string) error {
	ok := len(name) <= 64
	for i, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = ok && (alnum || i > 0 && strings.IndexByte("._-", c) >= 0)
	}
	if !ok || name == "" {
		return fmt.Errorf("session %.80q: use 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit: %w", name, ErrSessionName)
	}
	return nil
}

// Name returns the session's name, or "".
func (u *Umbrella) Name() string { return u.name }

// Dir returns the umbrella's path, making it (mode 0700, the owner's) and taking
// its lock on the first call. It waits for neither longer than ctx. It is ErrClosed
// after Close.
func (u *Umbrella) Dir(ctx context.Context) (string, error) {
	if err := u.enter(ctx); err != nil {
		return "", err
	}
	defer u.leave()
	return u.open(ctx)
}

func (u *Umbrella) enter(ctx context.Context) error {
	select {
	case u.mutex <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("umbrella: %w", context.Cause(ctx))
	}
}

func (u *Umbrella) leave() { <-u.mutex }

// Sub returns the path of a directory that belongs to the umbrella, made 0700
// and the owner's if need be. name is one plain component.
func (u *Umbrella) Sub(ctx context.Context, name string) (string, error) {
	if err := checkSessionName(name); err != nil || slices.Contains([]string{lockFile, recordFile, ownedDir}, name) {
		return "", fmt.Errorf("umbrella directory %.80q: %w", name, ErrInvalidPath)
	}
	if err := u.enter(ctx); err != nil {
		return "", err
	}
	defer u.leave()
	if _, err := u.open(ctx); err != nil {
		return "", err
	}
	return u.sub(name)
}

func (u *Umbrella) sub(name string) (string, error) {
	sub := filepath.Join(u.dir, name)
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
	if u.owner != nil && fi.Sys().(*syscall.Stat_t).Uid != u.owner.UID {
		// By its path: the directory that it lies in is ours alone.
		if err := os.Lchown(sub, int(u.owner.UID), int(u.owner.GID)); err != nil {
			return "", fmt.Errorf("umbrella: %w", err)
		}
	}
	return sub, nil
}

func (u *Umbrella) open(ctx context.Context) (string, error) {
	switch {
	case u.closed:
		return "", fmt.Errorf("umbrella: %w", ErrClosed)
	case u.usable != "":
		return u.usable, nil
	case u.dir == "":
		if err := u.make(ctx); err != nil {
			return "", err
		}
	}
	if u.owner == nil {
		u.usable = u.dir
		return u.dir, nil
	}
	sub, err := u.sub(ownedDir)
	u.usable = sub
	return sub, err
}

// make makes the umbrella, or joins the named one that there is.
func (u *Umbrella) make(ctx context.Context) error {
	mode := fs.FileMode(0o700)
	if u.owner != nil {
		mode = 0o711 // to pass through, not to look around
	}
	if err := private(hostpath.MakePrivate(u.base, mode)); err != nil {
		return err
	}
	for range makeAttempts {
		id := unnamedPrefix + rand.Text()[:12] // 60 bits; short, for socket paths
		if u.name != "" {
			id = namedPrefix + u.name
		}
		dir := filepath.Join(u.base, id)
		err := os.Mkdir(dir, mode)
		if err == nil && mode != 0o700 {
			err = os.Chmod(dir, mode) // whatever the umask is
		}
		if err != nil && (u.name == "" || !errors.Is(err, fs.ErrExist)) {
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return fmt.Errorf("umbrella: %w", err)
		}
		if err := checkOwn(dir); errors.Is(err, fs.ErrNotExist) {
			continue // swept since
		} else if err != nil {
			return err
		}
		var lock *os.File
		if u.name == "" {
			lock, err = tryLockDir(dir, unix.LOCK_EX)
		} else {
			// A sweep or a removal has it exclusively, for as long as a rename takes.
			lock, err = lockDir(ctx, dir, unix.LOCK_SH)
		}
		switch {
		case u.name == "" && errors.Is(err, errHeld):
			continue // likewise
		case errors.Is(err, errHeld):
			return err
		case errors.Is(err, errLost):
			continue // a sweep was faster; a fresh one, or fresh name
		case err != nil:
			os.Remove(dir) // if it is empty: on a disk that is full there was no room for the lock
			return err
		}
		if u.name != "" {
			touch(lock)
		}
		u.dir, u.lock = dir, lock
		return nil
	}
	return fmt.Errorf("umbrella: swept %d times while being made in %q: %w", makeAttempts, u.base, syscall.EBUSY)
}

// Close gives the umbrella up. An unnamed one is removed with all it holds; a
// named one is left for the next process of that session, see RemoveSession.
// Only the first call does anything; using the umbrella afterwards is
// ErrClosed.
func (u *Umbrella) Close() error {
	u.mutex <- struct{}{}
	defer u.leave()
	if u.closed {
		return nil
	}
	u.closed = true
	if u.lock == nil {
		return nil
	}
	if u.name != "" {
		touch(u.lock)
		release(u.lock)
		return nil
	}
	return discard(u.base, u.dir, u.lock)
}

// errLost: the directory is no longer the one that was locked.
var errLost = errors.New("lost to another process")

// errHeld: somebody holds the lock of a named umbrella exclusively, for longer than
// we can wait.
var errHeld = errors.New("another process holds its lock")

// tryLockDir is lockDir that does not wait.
func tryLockDir(dir string, how int) (*os.File, error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return lockDir(ended, dir, how)
}

// lockDir takes the lock of the umbrella dir and makes sure that it is that
// umbrella's lock still. It is errHeld where another process has the lock until wait
// ends.
func lockDir(wait context.Context, dir string, how int) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	fd, err := hostpath.Openat(unix.AT_FDCWD, path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errLost // the directory is gone
	}
	if err != nil {
		return nil, fmt.Errorf("umbrella: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	switch err := hostpath.Lock(wait, fd, how); {
	case errors.Is(err, unix.EWOULDBLOCK):
		unix.Close(fd)
		return nil, fmt.Errorf("umbrella: %q: %w: %w", path, errHeld, context.Cause(wait))
	case err != nil:
		unix.Close(fd)
		return nil, fmt.Errorf("umbrella: %w", &fs.PathError{Op: "flock", Path: path, Err: err})
	}
	var held, named unix.Stat_t
	if err := unix.Fstat(fd, &held); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("umbrella: %w", &fs.PathError{Op: "stat", Path: path, Err: err})
	}
	err = unix.Lstat(path, &named)
	if err != nil || held.Dev != named.Dev || held.Ino != named.Ino {
		unix.Close(fd)
		return nil, errLost
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

// discard renames away the umbrella whose lock is held exclusively, lets go of
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
		return fmt.Errorf("umbrella: %w", err)
	}
	if err := removeTree(context.Background(), base, dead); err != nil {
		return fmt.Errorf("umbrella: remove what was %q: %w", dir, err)
	}
	return nil
}
