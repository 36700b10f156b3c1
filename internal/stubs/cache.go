package stubs

import (
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// A cache is the directory in which stubs wait until they are needed again; nil where
// there is none. To rename nine stubs there and back takes a quarter of a millisecond
// on ext4, and to remove them and make others three. And a mount that a container has
// of a stub outlives that: the kernel takes a mount away from a name that is removed,
// not from one that is moved.
//
// Whoever moves stubs has it locked for itself.
type cache struct {
	dir int
	// misses counts stubs that were not there when they were needed: each of them
	// is likely to come to the cache beside what it has.
	misses *int
}

// openCache opens the cache, making it if need be, and locks it for itself: nil where that cannot be
// done, or another is just moving something.
func (r *Registry) openCache() *cache {
	c, err := openCache(r.dir, unix.LOCK_EX, hostpath.NoWait())
	if err != nil {
		return nil
	}
	c.misses = &r.misses
	return c
}

func openCache(path string, how int, ctx context.Context) (*cache, error) {
	if path == "" {
		return nil, errors.New("stubs: there is no directory for the cache")
	}
	// Others could else put something there, or take something away.
	if err := hostpath.MakePrivate(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := hostpath.OpenNoSymlinks(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := hostpath.Lock(ctx, dir, how); err != nil {
		unix.Close(dir)
		return nil, err
	}
	return &cache{dir: dir}, nil
}

func (c *cache) close() {
	if c != nil {
		hostpath.Unlock(c.dir)
	}
}

// SuspendCache says that the command can write to something in which the cache is, although
// not to that: until Release nobody puts anything into the cache, or takes it from there. A
// command that is in a directory when that is moved goes up from there to where it was moved
// to, beneath the mount that keeps it from writing to the cache, and to what lies beside it.
// The kernel stops it only where both places are not in one bind.
//
// The command must not run where that cannot be said.
func (h *Hold) SuspendCache(ctx context.Context) error {
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.suspends != nil || r.dir == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimPatience) // whoever is moving something needs less
	defer cancel()
	c, err := openCache(r.dir, unix.LOCK_SH, ctx)
	if errors.Is(err, unix.EROFS) {
		return nil // nor can others move anything there
	}
	h.suspends = c
	return err
}

// slot is where the stub of a name in a directory is kept; empty where a directory
// cannot be told from one that has had its inode before. No other directory's stub
// is ever kept there: a command may have opened the one that it sees, and could
// write to it wherever it comes to lie - as what is protected from everyone, in a
// workspace that the command has nothing to do with.
func slot(dir int, name string) string {
	id := identity(dir)
	if id == "" {
		return ""
	}
	return id + "-" + name
}

// cachedMode is a directory's in the cache. Whoever has found one in the moment
// before it goes there, to make something in it, is refused, as in a directory that
// was removed, rather than left with a file that is nowhere to be seen.
const cachedMode = markMode &^ 0o222

// put moves a stub, which the caller has locked for itself, from its directory
// to the cache, and reports whether there is none left to remove: it does not move
// one to another file system, nor what is no longer as it was made.
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
		unix.Fchmod(m.fd, cachedMode) // not before: to be moved, it has to be writable
	}
	// Until then another may have put something in its place, or into it: that is
	// somebody's work, and no stub to be removed.
	if !m.liesAt(c.dir, to) || !m.pristine(cachedMode) {
		if !m.File {
			unix.Fchmod(m.fd, plainMode)
		}
		renameNew(c.dir, to, dir, name)
	}
	return true
}

// take moves a stub from the cache to its directory, claimed. The error is EEXIST where
// something lies there.
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

// discard removes what is of no use from the cache. What somebody had opened before it was
// moved, and has put something into or written to since, goes to where it was.
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

// capacity is how many stubs the cache has room for: a hundred workspaces' worth.
const capacity = 1024

// trim makes room where the cache has grown beyond its capacity: workspaces come
// and go. Any will do, since whatever is missed is made. A directory that somebody
// has put something into stays.
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

// pristine reports whether the stub is as it was made, and a directory of that mode.
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
