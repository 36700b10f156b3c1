package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// recordFile holds the root of the workspace that a named session belongs to.
const recordFile = "workspace"

// Claim records that the umbrella belongs to the workspace at root, and refuses
// one that belongs to another with ErrSessionWorkspace: what the commands of one
// project have left in a session must not reach those of another. An unnamed
// umbrella is nobody else's, and is not recorded.
func (u *Umbrella) Claim(ctx context.Context, root string) error {
	if err := u.enter(ctx); err != nil {
		return err
	}
	defer u.leave()
	if _, err := u.open(ctx); err != nil || u.name == "" {
		return err
	}
	owner, err := readRecord(u.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := u.record(root); err != nil {
			return err
		}
		owner, err = readRecord(u.dir) // perhaps another was faster
	}
	switch {
	case err != nil:
		return err
	case owner != root:
		return fmt.Errorf("session %q: %w, %q; choose another name here, or remove it first", u.name, ErrSessionWorkspace, owner)
	}
	return nil
}

// record writes the record unless there is one. By a link, which neither replaces
// another's nor shows half of it.
func (u *Umbrella) record(root string) error {
	temp := filepath.Join(u.dir, "."+rand.Text())
	err := os.WriteFile(temp, []byte(root), 0o600)
	if err == nil {
		if err = os.Link(temp, filepath.Join(u.dir, recordFile)); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	// On a full disk, too, there is half of it by now.
	if removeErr := os.Remove(temp); err == nil {
		err = removeErr
	}
	if err != nil {
		return fmt.Errorf("umbrella: %w", err)
	}
	return nil
}

// readRecord gives the root of the workspace that the umbrella dir belongs to.
func readRecord(dir string) (string, error) {
	path := filepath.Join(dir, recordFile)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("umbrella: %w", err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(f, unix.PathMax)); err != nil {
		return "", fmt.Errorf("umbrella: %w", err)
	}
	return b.String(), nil
}

// Session describes a named session's umbrella.
type Session struct {
	Name      string
	Dir       string
	Workspace string // the root it belongs to; "" if that was never recorded
	LastUsed  time.Time
	InUse     bool  // some process owned it when it was looked at
	Users     []int // those processes, as far as the system tells
}

// Sessions lists the named sessions below base, by name.
func Sessions(base string) ([]Session, error) {
	base, err := umbrellaBase(base)
	if err != nil {
		return nil, err
	}
	entries, err := readSessions(base)
	if err != nil {
		return nil, err
	}
	var list []Session
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), namedPrefix)
		if !ok {
			continue
		}
		s := Session{Name: name, Dir: filepath.Join(base, e.Name())}
		fi, err := os.Lstat(filepath.Join(s.Dir, lockFile))
		if err != nil {
			continue // removed since, or being made
		}
		s.LastUsed = fi.ModTime()
		s.Workspace, _ = readRecord(s.Dir)
		lock, err := tryLockDir(s.Dir, unix.LOCK_EX)
		if err == nil {
			release(lock)
		}
		if s.InUse = errors.Is(err, errHeld) || errors.Is(err, errLost); s.InUse {
			s.Users = lockHolders(filepath.Join(s.Dir, lockFile), fi.Sys().(*syscall.Stat_t).Ino)
		}
		list = append(list, s)
	}
	return list, nil
}

// Size is the space that the session takes on its file system, in bytes. What
// changes or cannot be read meanwhile counts as far as it was seen.
func (s *Session) Size(ctx context.Context) (int64, error) {
	size, _, err := measureTree(ctx, s.Dir, -1)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // removed since it was listed
	}
	return size, err
}

// RemoveSession removes the named session's umbrella. It is ErrSessionInUse
// while a process owns it and fs.ErrNotExist if there is none.
func RemoveSession(base, name string) error {
	if err := checkSessionName(name); err != nil {
		return err
	}
	base, err := umbrellaBase(base)
	if err != nil {
		return err
	}
	dir := filepath.Join(base, namedPrefix+name)
	if err := checkOwn(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("session %q: %w", name, fs.ErrNotExist)
	} else if err != nil {
		return err
	}
	lock, err := tryLockDir(dir, unix.LOCK_EX)
	if errors.Is(err, errLost) || errors.Is(err, errHeld) {
		return fmt.Errorf("session %q: %w", name, ErrSessionInUse)
	}
	if err != nil {
		return err
	}
	return discard(base, dir, lock)
}
