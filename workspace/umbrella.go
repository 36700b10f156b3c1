package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	base string
	name string // "" is unnamed

	mu     sync.Mutex
	dir    string
	lock   *os.File
	closed bool
}

// UmbrellaOptions say where an umbrella is and whether it has a name.
type UmbrellaOptions struct {
	// Base is the absolute directory that holds umbrellas. Empty means
	// SessionsDir with the process's environment.
	Base string
	// Name makes the umbrella one that several processes may share at once and
	// that the next one finds again. Letters, digits, ".", "_" and "-", at most
	// 64, the first a letter or digit. Empty: private to this Umbrella.
	Name string
}

// SessionsDir returns the directory that holds the user's umbrellas:
// $XDG_CACHE_HOME/sbxhost/sessions, else ~/.cache/sbxhost/sessions, on macOS
// ~/Library/Caches/sbxhost/sessions. A relative XDG_CACHE_HOME is ignored, as
// its specification demands. lookup nil means os.LookupEnv.
//
// It is not in /tmp, where the names are anybody's to take.
func SessionsDir(lookup func(string) (string, bool)) (string, error) {
	return sessionsDir(runtime.GOOS, lookup)
}

func sessionsDir(goos string, lookup func(string) (string, bool)) (string, error) {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	cache, _ := lookup("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		home, _ := lookup("HOME")
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("sessions: neither XDG_CACHE_HOME nor HOME is an absolute path; set one: %w", ErrInvalidPath)
		}
		if goos == "darwin" {
			cache = filepath.Join(home, "Library", "Caches")
		} else {
			cache = filepath.Join(home, ".cache")
		}
	}
	return filepath.Join(cache, "sbxhost", "sessions"), nil
}

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
	return &Umbrella{base: base, name: o.Name}, nil
}

func umbrellaBase(base string) (string, error) {
	if base == "" {
		return SessionsDir(nil)
	}
	if err := checkSpelling(base); err != nil {
		return "", fmt.Errorf("base: %w", err)
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("base: %q is not absolute: %w", base, ErrInvalidPath)
	}
	return filepath.Clean(base), nil
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

// Dir returns the umbrella's path, making it (mode 0700) and taking its lock on
// the first call. It is ErrClosed after Close.
func (u *Umbrella) Dir() (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open()
}

// Sub returns the path of a directory in the umbrella, made 0700 if need be.
// name is one plain component.
func (u *Umbrella) Sub(name string) (string, error) {
	if err := checkSessionName(name); err != nil || name == lockFile {
		return "", fmt.Errorf("umbrella directory %.80q: %w", name, ErrInvalidPath)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	dir, err := u.open()
	if err != nil {
		return "", err
	}
	sub := filepath.Join(dir, name)
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
	return sub, nil
}

// LockFile returns a duplicate of the lock's file, to be inherited by a process
// that must keep the umbrella alive should this one die. The lock lasts until
// the last duplicate is closed. The caller closes the result.
func (u *Umbrella) LockFile() (*os.File, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := u.open(); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(u.lock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("umbrella: duplicate lock: %w", err)
	}
	return os.NewFile(uintptr(fd), u.lock.Name()), nil
}

func (u *Umbrella) open() (string, error) {
	switch {
	case u.closed:
		return "", fmt.Errorf("umbrella: %w", ErrClosed)
	case u.dir != "":
		return u.dir, nil
	}
	if err := prepareBase(u.base); err != nil {
		return "", err
	}
	for range makeAttempts {
		id := unnamedPrefix + rand.Text()[:12] // 60 bits; short, for socket paths
		if u.name != "" {
			id = namedPrefix + u.name
		}
		dir := filepath.Join(u.base, id)
		err := os.Mkdir(dir, 0o700)
		if err != nil && (u.name == "" || !errors.Is(err, fs.ErrExist)) {
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return "", fmt.Errorf("umbrella: %w", err)
		}
		if err := checkOwn(dir); errors.Is(err, fs.ErrNotExist) {
			continue // swept since
		} else if err != nil {
			return "", err
		}
		how := unix.LOCK_EX | unix.LOCK_NB
		if u.name != "" {
			// Only a sweep or a removal holds it exclusively, and only for as
			// long as a rename takes.
			how = unix.LOCK_SH
		}
		lock, err := lockDir(dir, how)
		switch {
		case errors.Is(err, errLost):
			continue // a sweep was faster; a fresh one, or fresh name
		case err != nil:
			return "", err
		}
		if u.name != "" {
			touch(lock)
		}
		u.dir, u.lock = dir, lock
		return dir, nil
	}
	return "", fmt.Errorf("umbrella: swept %d times while being made in %q: %w", makeAttempts, u.base, syscall.EBUSY)
}

// Close gives the umbrella up. An unnamed one is removed with all it holds; a
// named one is left for the next process of that session, see RemoveSession.
// Only the first call does anything; using the umbrella afterwards is
// ErrClosed.
func (u *Umbrella) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	if u.lock == nil {
		return nil
	}
	defer u.lock.Close()
	if u.name != "" {
		touch(u.lock)
		return nil
	}
	return discard(u.base, u.dir, u.lock)
}

// errLost: the lock is another's, or the directory is no longer the one that
// was locked.
var errLost = errors.New("lost to another process")

// lockDir takes the lock of the umbrella dir and makes sure that it is that
// umbrella's lock still.
func lockDir(dir string, how int) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	fd, err := openatRetry(unix.AT_FDCWD, path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errLost // the directory is gone
	}
	if err != nil {
		return nil, fmt.Errorf("umbrella: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	for {
		if err = unix.Flock(fd, how); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		if err == unix.EWOULDBLOCK {
			return nil, errLost
		}
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
	lock.Close()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by hand
	}
	if err != nil {
		return fmt.Errorf("umbrella: %w", err)
	}
	if err := removeTree(base, dead); err != nil {
		return fmt.Errorf("umbrella: remove what was %q: %w", dir, err)
	}
	return nil
}

// prepareBase makes the directories that umbrellas lie in and refuses to use
// another user's. Root in a user's home, as with a plain sudo, would else leave
// directories there that the user cannot write, or follow links of the user's.
func prepareBase(base string) error {
	if checkOwn(base) == nil {
		return nil // the usual case
	}
	var missing []string
	dir := base
	for {
		fi, err := os.Lstat(dir)
		if err == nil {
			if fi.Mode()&fs.ModeSymlink != 0 {
				if fi, err = os.Stat(dir); err != nil {
					return fmt.Errorf("umbrella: %w", err)
				}
			}
			if len(missing) == 0 {
				break
			}
			uid := fi.Sys().(*syscall.Stat_t).Uid
			if uid != 0 && int(uid) != os.Geteuid() {
				return fmt.Errorf("umbrella: %q belongs to uid %d and this process is uid %d; set XDG_CACHE_HOME to a directory of your own: %w", dir, uid, os.Geteuid(), ErrUnsafeCache)
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("umbrella: %w", err)
		}
		missing = append(missing, dir)
		dir = filepath.Dir(dir)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := os.Mkdir(missing[i], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("umbrella: %w", err)
		}
	}
	return checkOwn(base)
}

// checkOwn refuses a directory that is a symlink, another user's, or writable
// by others.
func checkOwn(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("umbrella: %w", err)
	}
	uid := fi.Sys().(*syscall.Stat_t).Uid
	switch {
	case !fi.IsDir():
		return fmt.Errorf("umbrella: %q is not a directory: %w", dir, ErrUnsafeCache)
	case int(uid) != os.Geteuid():
		return fmt.Errorf("umbrella: %q belongs to uid %d and this process is uid %d; set XDG_CACHE_HOME to a directory of your own: %w", dir, uid, os.Geteuid(), ErrUnsafeCache)
	case fi.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("umbrella: others can write to %q (mode %#o); chmod it to 0700: %w", dir, fi.Mode().Perm(), ErrUnsafeCache)
	}
	return nil
}
