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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// How a session directory stays alive, and why no sweep can remove a live one:
//
// Each has a file "lock". Its owner holds an exclusive flock on it until it closes or dies. To remove
// the directory, a process must hold that lock, then check that the path still names the locked
// file, and only then rename the directory away. A process that makes one locks and checks in the
// same way. So between mkdir and flock a sweep may remove a new directory, but its maker then finds
// the path missing or another file there, and starts again; after the check nobody else can get the
// lock, and without it nobody renames. There is no lock above the directories that a stopped process
// could hold.

const (
	lockFile      = "lock"
	ownedDir      = "s" // for the owner, if that is not this process's user
	unnamedPrefix = "u-"
	namedPrefix   = "n-"
	deadPrefix    = ".dead-" // renamed by a sweep; anyone may delete it
	makeAttempts  = 128
)

// namedMaxAge is how long the directory of a named session outlives its last use.
const namedMaxAge = 7 * 24 * time.Hour

// recordFile has the root of a named session's workspace.
const recordFile = "workspace"

// Dir is the private directory of one session: scratch files, sockets, overlay state. It makes
// nothing before the first use. One goroutine at a time may use it, and none after Close.
type Dir struct {
	base  string
	name  string // "" means unnamed
	owner *User  // nil: this process's user

	dir    string // has the lock; this process's
	usable string // the result of Path
	lock   *os.File

	unrecorded bool // nothing was run in it
}

type User struct{ UID, GID uint32 }

// New returns a Dir, and touches no file. base is the directory of session directories, by
// ResolveBase.
//
// A name makes it one that the next process finds again: letters, digits, ".", "_" and "-", at most
// 64, the first a letter or digit. Without a name it is private to this Dir.
//
// owner is the user for whom Path and Sub make directories, if that is not the process's own: only
// root can do so, see SystemBase. That user cannot reach the lock, nor the names that root renames
// and removes: a link of the user's would lead root astray.
func New(base, name string, owner *User) (*Dir, error) {
	if name != "" {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	return &Dir{base: base, name: name, owner: owner}, nil
}

// CheckName refuses, with ErrName, an invalid name of a session or review.
func CheckName(name string) error {
	if !paths.IsName(name) {
		return fmt.Errorf("%.80q is %w: use 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit", name, ErrName)
	}
	return nil
}

// Name returns the session's name, or "".
func (d *Dir) Name() string { return d.name }

// Path returns the directory's path. The first call makes it (mode 0700, the owner's) and takes its
// lock; the error is an InUseError while somebody else has that.
func (d *Dir) Path() (string, error) {
	switch {
	case d.usable != "":
		return d.usable, nil
	case d.dir == "":
		if err := d.make(); err != nil {
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

// Renew makes an unnamed one begin anew, and reports that, if somebody has removed it, as by rm -r ~/.cache.
func (d *Dir) Renew() bool {
	_, err := os.Lstat(filepath.Join(d.dir, lockFile))
	gone := d.lock != nil && d.name == "" && errors.Is(err, fs.ErrNotExist)
	if gone {
		release(d.lock)
		d.dir, d.usable, d.lock = "", "", nil
	}
	return gone
}

// Sub returns the path of a directory in the session directory. It makes a missing one, 0700 and
// the owner's. name is one plain component.
func (d *Dir) Sub(name string) (string, error) {
	if err := CheckName(name); err != nil || slices.Contains([]string{lockFile, recordFile, ownedDir}, name) {
		return "", fmt.Errorf("session directory %.80q: %w", name, ErrName)
	}
	if _, err := d.Path(); err != nil {
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
		// By its path: the directory around it is ours alone.
		if err := os.Lchown(sub, int(d.owner.UID), int(d.owner.GID)); err != nil {
			return "", private(err)
		}
	}
	return sub, nil
}

// make makes the session directory, or takes an existing named one. Others may sweep and remove
// meanwhile.
func (d *Dir) make() (err error) {
	mode := fs.FileMode(0o700)
	if d.owner != nil {
		mode = 0o711 // others can enter, but not list it
	}
	for range makeAttempts {
		if err = private(hostpath.MakePrivate(d.base, mode)); err == nil {
			err = d.attempt(mode)
		}
		if !errors.Is(err, errLost) {
			return err
		}
	}
	return fmt.Errorf("session directory: not made in %q in %d attempts: %v", d.base, makeAttempts, err)
}

// attempt is make. It returns errLost if another process has the name or has swept the directory.
func (d *Dir) attempt(mode fs.FileMode) error {
	dir := filepath.Join(d.base, unnamedPrefix+rand.Text()[:12]) // 60 bits; short, for socket paths
	if d.name != "" {
		dir = d.named()
	}
	err := os.Mkdir(dir, mode)
	exists := errors.Is(err, fs.ErrExist)
	switch {
	case exists && d.name == "":
		return errLost
	case err != nil && !exists:
		return private(err)
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
	lock, err := lockDir(dir)
	switch held := errors.Is(err, errHeld); {
	case err == nil:
		d.dir, d.lock = dir, lock
		if d.name != "" {
			touch(lock)
		}
	case held && d.name == "":
		return errLost // by a sweep
	case held:
		return inUse(d.name, dir)
	case !errors.Is(err, errLost):
		os.Remove(dir) // if it is empty: a full disk had no space for the lock
	}
	return err
}

func (d *Dir) named() string { return filepath.Join(d.base, namedPrefix+d.name) }

// Guest returns a Dir with the paths of a named session directory that somebody else has, and
// without its lock: for plans, in which nothing runs.
func (d *Dir) Guest() *Dir {
	return &Dir{base: d.base, name: d.name, owner: d.owner, dir: d.named()}
}

// Close gives the session directory up. It removes an unnamed one with all its contents, and leaves
// a named one for the next process of that session, unless Claim could not record it; see Remove.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	if d.name != "" && !d.unrecorded {
		touch(d.lock)
		release(d.lock)
		return nil
	}
	return discard(context.Background(), d.base, d.dir, d.lock)
}

// What lockDir returns if the directory is no longer the locked one, or if another process holds its
// lock.
var errLost, errHeld error = fs.ErrNotExist, unix.EWOULDBLOCK

// taken reports whether lockDir returned one of these.
func taken(err error) bool { return errors.Is(err, errLost) || errors.Is(err, errHeld) }

// lockDir takes the lock of the session directory dir.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	fd, err := hostpath.LockAt(hostpath.NoWait(), unix.AT_FDCWD, path, unix.LOCK_EX)
	if err != nil {
		return nil, private(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func release(lock *os.File) {
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) // see hostpath.Unlock
	lock.Close()
}

// touch records a use of a named session. If it fails, the session only lives shorter.
func touch(lock *os.File) {
	now := unix.NsecToTimeval(time.Now().UnixNano())
	_ = unix.Futimes(int(lock.Fd()), []unix.Timeval{now, now})
}

// discard renames away the session directory whose lock is held exclusively, releases the lock, and
// deletes the renamed directory. That may take long; another process that wants the name need not
// wait. When ctx ends, the rest stays for a sweep.
func discard(ctx context.Context, base, dir string, lock *os.File) error {
	dead := deadPrefix + rand.Text()
	err := os.Rename(dir, filepath.Join(base, dead))
	release(lock)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by hand
	}
	if err != nil {
		return private(err)
	}
	if err := RemoveTree(ctx, base, dead); err != nil {
		return fmt.Errorf("session directory: remove what was %q: %w", dir, err)
	}
	return nil
}
