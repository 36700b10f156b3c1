package stubs

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A shelf is the directory in which stubs wait until they are needed again, nil
// where there is none. To move one there and back is a tenth of the work of
// removing it and making another. And what a sandbox that lives on has mounted
// on it is mounted there still when it is back: the kernel takes a mount away
// from a name that is removed, not from one that is moved.
//
// Whoever uses it has the account, so that no other process of this user does.
type shelf struct {
	dir int
	// grown is how many were not there when they were needed: each of them is
	// likely to come to the shelf beside what it has.
	grown int
}

// shelfName is its name among the ledgers.
const shelfName = "kept"

// openShelf opens the shelf, making it if need be.
func openShelf(ledgers string) *shelf {
	path := filepath.Join(ledgers, shelfName)
	dir, err := openDir(path)
	if err == unix.ENOENT && os.Mkdir(path, 0o700) == nil {
		dir, err = openDir(path)
	}
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		unix.Close(dir) // others could put something there, or take something away
		return nil
	}
	return &shelf{dir: dir}
}

func (s *shelf) close() {
	if s != nil {
		unix.Close(s.dir)
	}
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

// shelfMode is a directory's on the shelf. Whoever has found one in the moment
// before it goes there, to make something in it, is refused, as in a directory that
// was removed, rather than left with a file that is nowhere to be seen.
const shelfMode = markMode &^ 0o222

// put moves a stub, which the caller has locked for itself, from its directory
// to the shelf, and reports whether there is none left to remove: it does not move
// one to another file system, nor what is no longer as it was made.
func (s *shelf) put(rec *record, dir, fd int) bool {
	var st unix.Stat_t
	if s == nil || fd < 0 || unix.Fstat(fd, &st) != nil {
		return false
	}
	name := filepath.Base(rec.path)
	to := slot(dir, name)
	there := func(dir int, name string) bool {
		var at unix.Stat_t
		return unix.Fstatat(dir, name, &at, unix.AT_SYMLINK_NOFOLLOW) == nil && at.Ino == st.Ino && at.Dev == st.Dev
	}
	if to == "" || !rec.pristine(fd, &st, markMode) || !there(dir, name) || unix.Renameat(dir, name, s.dir, to) != nil {
		return false
	}
	if rec.dir {
		unix.Fchmod(fd, shelfMode) // not before: to be moved, it has to be writable
	}
	// Until then another may have put something in its place, or into it: that is
	// somebody's work, and no stub to be removed.
	if !there(s.dir, to) || unix.Fstat(fd, &st) != nil || !rec.pristine(fd, &st, shelfMode) {
		if rec.dir {
			unix.Fchmod(fd, plainMode)
		}
		renameNew(s.dir, to, dir, name)
	}
	return true
}

// take moves a stub from the shelf to its directory, claimed, and reports whether
// there was one. The error is EEXIST where something lies there.
func (s *shelf) take(want Stub, dir int) (rec record, fd int, err error) {
	if s == nil {
		return record{}, -1, unix.ENOENT
	}
	name := filepath.Base(want.Path)
	from := slot(dir, name)
	if from == "" {
		return record{}, -1, unix.ENOENT
	}
	if fd, err = openAt(s.dir, from); err != nil {
		s.grown++
		return record{}, -1, err
	}
	rec = record{path: want.Path, dir: !want.File, content: want.Content}
	var st, parent unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = unix.Fstat(dir, &parent)
	}
	if err == nil && (!rec.pristine(fd, &st, shelfMode) || !ownedAs(&st, &parent)) {
		s.discard(from, dir, name, fd, &st)
		err = unix.ENOENT
	}
	if err == nil {
		err = flockFD(fd, unix.LOCK_SH|unix.LOCK_NB)
	}
	if err == nil && rec.dir {
		err = unix.Fchmod(fd, markMode)
	}
	if err == nil {
		if err = renameNew(s.dir, from, dir, name); err != nil && rec.dir {
			unix.Fchmod(fd, shelfMode)
		}
	}
	if err != nil {
		unclaim(fd)
		return record{}, -1, err
	}
	rec.dev, rec.ino = uint64(st.Dev), st.Ino
	return rec, fd, nil
}

// discard removes what is of no use from the shelf. A directory that somebody had
// opened before it was moved, and has put something into since, goes to where it
// was.
func (s *shelf) discard(from string, dir int, name string, fd int, st *unix.Stat_t) {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		unix.Unlinkat(s.dir, from, 0)
	} else if unix.Unlinkat(s.dir, from, unix.AT_REMOVEDIR) == unix.ENOTEMPTY {
		unix.Fchmod(fd, plainMode)
		renameNew(s.dir, from, dir, name)
	}
}

// capacity is how many stubs the shelf has room for: a hundred workspaces' worth.
const capacity = 1024

// trim makes room where the shelf has grown beyond its capacity: workspaces come
// and go. Any will do, since whatever is missed is made. A directory that somebody
// has put something into stays.
func (s *shelf) trim() {
	if s == nil || s.grown == 0 {
		return
	}
	s.grown = 0
	fd, err := openAt(s.dir, ".")
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
		if unix.Unlinkat(s.dir, name, 0) != nil {
			unix.Unlinkat(s.dir, name, unix.AT_REMOVEDIR)
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
