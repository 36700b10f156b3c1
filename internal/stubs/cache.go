package stubs

import (
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// A cache is a directory for stubs that nobody needs now; nil if there is none. To rename nine
// stubs there and back takes a quarter of a millisecond on ext4; to remove them and make new ones
// takes three. Of the processor time of a short command by a server, that is three percent.
//
// A process that moves stubs holds an exclusive lock on the cache.
type cache struct {
	dir int
	// misses counts stubs that were needed and not in the cache: each of them will probably come to
	// the cache later.
	misses *int
}

// openCache opens the cache, makes it if it is missing, and locks it; nil if that fails, or if another
// process is moving a stub for as long as ctx waits.
func (r *Registry) openCache(ctx context.Context, how int) (*cache, error) {
	if r.dir == "" {
		return nil, errors.New("stubs: there is no directory for the cache")
	}
	// Otherwise other users could add or remove something there.
	if err := hostpath.MakePrivate(r.dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := hostpath.OpenNoSymlinks(r.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := hostpath.Lock(ctx, dir, how); err != nil {
		unix.Close(dir)
		return nil, err
	}
	return &cache{dir, &r.misses}, nil
}

func (c *cache) close() {
	if c != nil {
		hostpath.Unlock(c.dir)
	}
}

// SuspendCache stops all moves to and from the cache until Release. It is for a command that can
// write to a directory around the cache, although not to the cache itself. When a directory is
// moved, a command inside it can go up to the new parent, beneath the mount that protects the
// cache, and can then write to the cache and around it. The kernel stops it only if both places are
// in different binds.
//
// If SuspendCache fails, the command must not run.
func (h *Hold) SuspendCache(ctx context.Context) error {
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.suspends != nil || r.dir == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimPatience) // a move takes less time
	defer cancel()
	c, err := r.openCache(ctx, unix.LOCK_SH)
	if errors.Is(err, unix.EROFS) {
		return nil // nor can others move anything there
	}
	h.suspends = c
	return err
}

// slot returns the place in the cache for the stub of a name in a directory. It is empty if the
// package cannot tell the directory from an earlier one with the same inode. A slot is only for one
// directory: a command may have opened the stub that it sees, and can write to it wherever it
// moves, also to a protected path in another workspace.
func slot(dir int, name string) string {
	id := identity(dir)
	if id == "" {
		return ""
	}
	return id + "-" + name
}

// cachedMode is the mode of a directory in the cache. A process that found the stub just before its
// move and now makes something in it gets an error, as in a removed directory. Otherwise its file
// would be lost from sight.
const cachedMode = markMode &^ 0o222

// put moves a locked stub from its directory to the cache, and reports whether nothing remains to
// be removed. It does not move a stub to another file system, nor one that was changed.
func (c *cache) put(m *held, dir int) bool {
	if c == nil || !m.pristine(markMode) {
		return false
	}
	name := filepath.Base(m.Path)
	to := slot(dir, name)
	if to == "" || !m.liesAt(dir, name) || unix.Renameat(dir, name, c.dir, to) != nil {
		return false
	}
	if !m.File {
		unix.Fchmod(m.fd, cachedMode) // not before: a read-only directory cannot be moved
	}
	// Until now another process may have replaced or filled it: that is somebody's work, not a stub
	// to remove.
	if !m.liesAt(c.dir, to) || !m.pristine(cachedMode) {
		if !m.File {
			unix.Fchmod(m.fd, plainMode)
		}
		renameNew(c.dir, to, dir, name)
	}
	return true
}

// take moves a stub from the cache to its directory, claimed. The error is EEXIST if something is
// at that path.
func (c *cache) take(s Stub, dir int) (*held, error) {
	if c == nil {
		return nil, unix.ENOENT
	}
	name := filepath.Base(s.Path)
	from := slot(dir, name)
	if from == "" {
		return nil, unix.ENOENT
	}
	fd, err := openAt(c.dir, from)
	if err != nil {
		*c.misses++
		return nil, err
	}
	var st, parent unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = unix.Fstat(dir, &parent)
	}
	one := newHeld(s, fd, &st)
	if err == nil && (!one.pristine(cachedMode) || !ownedAs(&st, &parent)) {
		c.discard(from, dir, one)
		err = unix.ENOENT
	}
	if err == nil {
		err = hostpath.TryLock(fd, unix.LOCK_SH)
	}
	if err == nil && !s.File {
		err = unix.Fchmod(fd, markMode)
	}
	if err == nil {
		if err = renameNew(c.dir, from, dir, name); err != nil && !s.File {
			unix.Fchmod(fd, cachedMode)
		}
	}
	if err != nil {
		unclaim(fd)
		return nil, err
	}
	return one, nil
}

// discard removes a useless stub from the cache. If a process had it open before the move and has
// written to it since, discard moves it back.
func (c *cache) discard(from string, dir int, m *held) {
	var st unix.Stat_t
	if unix.Fstat(m.fd, &st) != nil {
		return
	}
	name := filepath.Base(m.Path)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if unix.Unlinkat(c.dir, from, unix.AT_REMOVEDIR) == unix.ENOTEMPTY {
			unix.Fchmod(m.fd, plainMode)
			renameNew(c.dir, from, dir, name)
		}
		return
	case unix.S_IFREG:
		if m.File && st.Nlink == 1 && !m.untouched(&st) && renameNew(c.dir, from, dir, name) == nil {
			return
		}
	}
	unix.Unlinkat(c.dir, from, 0)
}

// capacity is how many stubs the cache keeps: enough for a hundred workspaces.
const capacity = 1024

// trim removes stubs if the cache is above its capacity: workspaces come and go. It may remove any
// stub, because a missing one is made again. It keeps a directory into which somebody has put
// something.
func (c *cache) trim() {
	if c == nil || *c.misses == 0 {
		return
	}
	*c.misses = 0
	names, _ := list(c.dir, -1)
	if len(names) <= capacity {
		return
	}
	for _, name := range names[capacity/2:] {
		if unix.Unlinkat(c.dir, name, 0) != nil {
			unix.Unlinkat(c.dir, name, unix.AT_REMOVEDIR)
		}
	}
}

// pristine reports whether the stub is unchanged, and, for a directory, has that mode.
func (m *held) pristine(mode uint32) bool {
	var st unix.Stat_t
	if unix.Fstat(m.fd, &st) != nil || !m.untouched(&st) {
		return false
	}
	if m.File {
		return marked(&st) && st.Mode&0o7777 == fileMode
	}
	return uint32(st.Mode)&0o7777 == mode && emptyDir(m.fd)
}
