package stubs

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

// A cache is the directory in which stubs wait until they are needed again; nil where
// there is none. To rename nine stubs there and back takes a quarter of a millisecond
// on ext4, and to remove them and make others three. And a mount that a container has
// of a stub outlives that: the kernel takes a mount away from a name that is removed,
// not from one that is moved.
//
// Whoever moves stubs has the account, and the cache locked for itself.
type cache struct {
	dir int
	// misses counts stubs that were not there when they were needed: each of them
	// is likely to come to the cache beside what it has.
	misses *int
}

// cacheName is its name among the ledgers.
const cacheName = "kept"

// openCache opens the cache, making it if need be, and locks it.
func openCache(ledgers string, how int, misses *int) (*cache, error) {
	path := filepath.Join(ledgers, cacheName)
	// Others could else put something there, or take something away.
	if err := hostpath.MakePrivate(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := hostpath.OpenNoSymlinks(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := hostpath.TryLock(dir, how); err != nil {
		unix.Close(dir)
		return nil, err
	}
	return &cache{dir, misses}, nil
}

func (c *cache) close() *cache {
	if c != nil {
		hostpath.Unlock(c.dir)
	}
	return nil
}

// SuspendCache says that the command can write to something in which the ledgers are,
// although not to them: until Release nobody puts anything into the cache, or takes
// it from there. A command that is in a directory when that is moved goes up from
// there to where it was moved to, beneath the mount that keeps it from writing to
// the ledgers, and to what lies beside them. The kernel stops it only where both
// places are not in one bind.
//
// The command must not run where that cannot be said.
func (h *Hold) SuspendCache(ctx context.Context) error {
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.suspends != nil || r.dir == "" {
		return nil
	}
	unlock, err := r.lock(ctx) // nobody is moving anything now
	if err == nil {
		h.suspends, err = openCache(r.dir, unix.LOCK_SH, nil)
		unlock()
	}
	if errors.Is(err, unix.EROFS) {
		return nil // nor can others move anything there
	}
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
func (c *cache) put(rec *record, dir, fd int) bool {
	var st unix.Stat_t
	if c == nil || fd < 0 || unix.Fstat(fd, &st) != nil {
		return false
	}
	name := filepath.Base(rec.path)
	to := slot(dir, name)
	there := func(dir int, name string) bool {
		var at unix.Stat_t
		return unix.Fstatat(dir, name, &at, unix.AT_SYMLINK_NOFOLLOW) == nil && at.Ino == st.Ino && at.Dev == st.Dev
	}
	if to == "" || !rec.pristine(fd, &st, markMode) || !there(dir, name) || unix.Renameat(dir, name, c.dir, to) != nil {
		return false
	}
	if rec.dir {
		unix.Fchmod(fd, cachedMode) // not before: to be moved, it has to be writable
	}
	// Until then another may have put something in its place, or into it: that is
	// somebody's work, and no stub to be removed.
	if !there(c.dir, to) || unix.Fstat(fd, &st) != nil || !rec.pristine(fd, &st, cachedMode) {
		if rec.dir {
			unix.Fchmod(fd, plainMode)
		}
		renameNew(c.dir, to, dir, name)
	}
	return true
}

// take moves a stub from the cache to its directory, claimed, and reports whether
// there was one. The error is EEXIST where something lies there.
func (c *cache) take(want Stub, dir int) (rec record, fd int, err error) {
	if c == nil {
		return record{}, -1, unix.ENOENT
	}
	name := filepath.Base(want.Path)
	from := slot(dir, name)
	if from == "" {
		return record{}, -1, unix.ENOENT
	}
	if fd, err = openAt(c.dir, from); err != nil {
		*c.misses++
		return record{}, -1, err
	}
	rec = record{path: want.Path, dir: !want.File, content: want.Content}
	var st, parent unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = unix.Fstat(dir, &parent)
	}
	if err == nil && (!rec.pristine(fd, &st, cachedMode) || !ownedAs(&st, &parent)) {
		c.discard(from, dir, fd, &rec, &st)
		err = unix.ENOENT
	}
	if err == nil {
		err = hostpath.TryLock(fd, unix.LOCK_SH)
	}
	if err == nil && rec.dir {
		err = unix.Fchmod(fd, markMode)
	}
	if err == nil {
		if err = renameNew(c.dir, from, dir, name); err != nil && rec.dir {
			unix.Fchmod(fd, cachedMode)
		}
	}
	if err != nil {
		unclaim(fd)
		return record{}, -1, err
	}
	rec.dev, rec.ino = uint64(st.Dev), st.Ino
	return rec, fd, nil
}

// discard removes what is of no use from the cache. What somebody had opened before it was
// moved, and has put something into or written to since, goes to where it was.
func (c *cache) discard(from string, dir, fd int, rec *record, st *unix.Stat_t) {
	name := filepath.Base(rec.path)
	switch isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; {
	case isDir && unix.Unlinkat(c.dir, from, unix.AT_REMOVEDIR) == unix.ENOTEMPTY:
		unix.Fchmod(fd, plainMode)
		renameNew(c.dir, from, dir, name)
	case isDir, rec.same(st) && st.Nlink == 1 && !rec.empty(fd, st) && renameNew(c.dir, from, dir, name) == nil:
	default:
		unix.Unlinkat(c.dir, from, 0)
	}
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
	fd, err := openAt(c.dir, ".")
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	if len(names) <= capacity {
		return
	}
	for _, name := range names[capacity/2:] {
		if unix.Unlinkat(c.dir, name, 0) != nil {
			unix.Unlinkat(c.dir, name, unix.AT_REMOVEDIR)
		}
	}
}

// pristine reports whether an opened file is a stub as it was made, or a directory
// one of that mode.
func (r *record) pristine(fd int, st *unix.Stat_t, mode uint32) bool {
	if !r.same(st) {
		return false
	}
	if r.dir {
		return uint32(st.Mode)&0o7777 == mode && emptyDir(fd)
	}
	return marked(st) && st.Mode&0o7777 == fileMode && st.Size == int64(len(r.content)) && r.empty(fd, st)
}
